import type { Queryable } from '../database/database.ts'
import { forEachCall } from '../database/shared-statements.ts'
import type { TokenGrant } from '../domain/permissions.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { UsedToken } from '../jobs/last-use.ts'

/** The account behind a live token, and what the token may do. */
export interface TokenHolder extends UsedToken {
  scopes: string[]
  resourceScope: TokenGrant['resourceScope']
  repositoryIds: string[]
  accountId: string
  username: string
  isSiteAdmin: boolean
  displayName: string
  email: string | null
  /** Null: nobody has verified it. */
  emailVerifiedAt: Date | null
  createdAt: Date
}

const token = `t.kind, t.token_id as "tokenId", t.authorization_id as "authorizationId", t.scopes,
  t.resource_scope as "resourceScope", t.repository_ids as "repositoryIds"`
const account = `u.id as "accountId", u.username, u.is_admin as "isSiteAdmin", u.display_name as "displayName", u.email,
  u.email_verified_at as "emailVerifiedAt", u.created_at as "createdAt"`

/** The holders of live tokens, in the order of the hashes; null where no live token has that hash. */
export async function listTokenHolders(
  db: Queryable,
  tokenHashes: readonly SecretHash[],
): Promise<(TokenHolder | null)[]> {
  const { rows } = await db.query<TokenHolder | { kind: null }>({
    name: 'list-token-holders',
    text: forEachCall(
      { token_hash: 'bytea' },
      `select ${token}, ${account}
         from live_token t join account u on u.id = t.account_id
        where t.token_hash = call.token_hash`,
    ),
    values: [tokenHashes],
  })
  return rows.map((row) => (row.kind === null ? null : row))
}

/** Sets the display name of the holder of a live token with `account-profile:rw`. Null when no such token has that hash. */
export async function renameTokenHolder(
  db: Queryable,
  tokenHash: SecretHash,
  displayName: string,
): Promise<TokenHolder | null> {
  const { rows } = await db.query<TokenHolder>({
    name: 'rename-token-holder',
    text: `update account u
              set display_name = $2
             from live_token t
            where t.token_hash = $1 and u.id = t.account_id and 'account-profile:rw' = any(t.scopes)
        returning ${token}, ${account}`,
    values: [tokenHash, displayName],
  })
  return rows[0] ?? null
}

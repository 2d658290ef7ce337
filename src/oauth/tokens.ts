import type { Queryable } from '../database/database.ts'
import { forEachCall } from '../database/shared-statements.ts'
import type { ResourceScope } from '../domain/permissions.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { PresentedClient } from './client-auth.ts'

/** A refresh token and the pair to put in its place. */
export interface PairRefresh {
  client: PresentedClient
  refreshHash: SecretHash
  /** Null asks for all that was granted. */
  scopes: string[] | null
  accessHash: SecretHash
  nextRefreshHash: SecretHash
  /** The new pair, readable by who holds the old refresh token. */
  sealedSuccessor: Buffer
  accessSeconds: number
  refreshSeconds: number
  graceSeconds: number
}

export type RefreshAnswer =
  | { outcome: 'issued'; scopes: string[]; expiresIn: number }
  | { outcome: 'repeated'; scopes: string[]; expiresIn: number; sealedPair: Buffer }
  | { outcome: 'invalid_client' | 'invalid_grant' | 'invalid_scope' | 'reused' }

/** Verifies the client and supersedes the pair, or answers its successor: the migration's `refresh_pair` tells which. */
export async function refreshPair(db: Queryable, refresh: PairRefresh): Promise<RefreshAnswer> {
  const { rows } = await db.query<RefreshAnswer>({
    name: 'refresh-pair',
    text: `select outcome, scopes, expires_in as "expiresIn", sealed_pair as "sealedPair"
             from refresh_pair($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
    values: [
      refresh.client.clientId,
      refresh.client.secretHash,
      refresh.refreshHash,
      refresh.scopes,
      refresh.accessHash,
      refresh.nextRefreshHash,
      refresh.sealedSuccessor,
      refresh.accessSeconds,
      refresh.refreshSeconds,
      refresh.graceSeconds,
    ],
  })
  return rows[0] as RefreshAnswer
}

/**
 * Verifies the client and revokes the token: with a refresh token its whole authorization, with an access token only
 * itself. A token unknown, dead or of another client changes nothing. False when the client's authentication fails.
 */
export async function revokeToken(
  db: Queryable,
  client: PresentedClient,
  tokenHash: SecretHash,
): Promise<boolean> {
  const { rows } = await db.query<{ authenticated: boolean }>({
    name: 'revoke-token',
    text: 'select revoke_token($1, $2, $3) as authenticated',
    values: [client.clientId, client.secretHash, tokenHash],
  })
  return rows[0]?.authenticated === true
}

/** A live token as other servers may see it (RFC 7662 §2.2). */
export interface SeenToken {
  kind: 'access' | 'refresh' | 'personal'
  scopes: string[]
  /** Null for a personal access token. */
  clientId: string | null
  accountId: string
  username: string
  issuedAt: number
  /** Seconds since 1970; null when it has no end. */
  expiresAt: number | null
  resourceScope: ResourceScope
  /** Paths of the chosen repositories: they count when the resource scope is `specified`. */
  repositories: string[]
}

/** Who asks about which token. */
export interface Introspection {
  client: PresentedClient
  tokenHash: SecretHash
}

/**
 * Verifies the clients and finds live tokens, in the order of the calls: an application's own, or any when it is a
 * resource server. The token is null when there is none to see, the answer when the client's authentication fails.
 */
export async function introspectTokens(
  db: Queryable,
  calls: readonly Introspection[],
): Promise<({ token: SeenToken | null } | null)[]> {
  const { rows } = await db.query<{ isKnown: true | null; token: SeenToken | null }>({
    name: 'introspect-tokens',
    text: forEachCall(
      { client_id: 'text', secret_hash: 'bytea', token_hash: 'bytea' },
      `select true as "isKnown", token from introspect_token(call.client_id, call.secret_hash, call.token_hash)`,
    ),
    values: [
      calls.map(({ client }) => client.clientId),
      calls.map(({ client }) => client.secretHash),
      calls.map(({ tokenHash }) => tokenHash),
    ],
  })
  return rows.map(({ isKnown, token }) => isKnown && { token })
}

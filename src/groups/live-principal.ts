import type pg from 'pg'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'

/** Thrown when the session or the token of a request has ended since the request was checked. */
export class EndedMeanwhileError extends Refusal {
  constructor() {
    super(
      errcode.permissionDenied,
      'your session has ended in the meantime, so nothing was made. Sign in again',
    )
  }
}

/**
 * Throws EndedMeanwhileError when the session or the personal access token of a person has ended. Call it first in the
 * transaction that makes a credential: what ends everything of an account waits for that transaction, or it comes first.
 * Without this, requests that wait for a lock would make credentials after everything has ended.
 */
export async function requireLivePrincipal(
  tx: pg.PoolClient,
  { accountId, token, session }: Principal,
): Promise<void> {
  if (accountId === null || (token === null && session === null)) return
  // The account comes first, as in a change of its password.
  const { rowCount: accounts } = await tx.query(
    'select from account where id = $1 and disabled_at is null for no key update',
    [accountId],
  )
  const { rowCount } =
    token === null
      ? await tx.query('select from session where id_hash = $1 and expires_at > now() for share', [session])
      : await tx.query(
          `select from personal_token
            where $2 = 'personal' and id = $1 and revoked_at is null and expires_at > now() for share`,
          [token.tokenId, token.kind],
        )
  if (accounts !== 1 || rowCount !== 1) throw new EndedMeanwhileError()
}

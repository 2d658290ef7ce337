import type pg from 'pg'
import { decideAccess, factorProofSeconds, fullCredential } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { lockRoleIn } from './members.ts'

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

/**
 * Throws errcode 7 when a person may not decide about a staged version of a repository (any more): without a session, when the
 * session has ended, when its last second factor or passkey is too old, and when the role is too weak. The operator at a command
 * always may. What ends one of these waits until the transaction ends, or it comes first. Call it after the locks for which the
 * transaction waits.
 */
export async function requireReviewer(tx: pg.PoolClient, by: Principal, repositoryId: string): Promise<void> {
  const { accountId, session, via } = by
  if (via === 'command') return
  if (accountId === null || session === null) throw new EndedMeanwhileError()
  await requireLivePrincipal(tx, by)
  const { rowCount: proofs } = await tx.query(
    `select from session
      where id_hash = $1 and account_id = $2 and factor_proved_at > now() - interval '${factorProofSeconds} seconds'`,
    [session, accountId],
  )
  if (proofs !== 1) {
    const errmsg = 'your last second factor was more than five minutes ago: try again'
    throw new Refusal(errcode.permissionDenied, errmsg)
  }
  const role = await lockRoleIn(tx, repositoryId, accountId)
  const repository = { id: repositoryId, visibility: 'private', role } as const
  if (decideAccess(fullCredential('session', false), repository, 'decideStage') !== 'allowed')
    throw new Refusal(errcode.permissionDenied, 'your role no longer allows this')
}

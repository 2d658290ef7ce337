import type { Queryable } from '../database/database.ts'
import { countAttempt } from '../database/failure-limit.ts'
import { describePrincipal, type Principal } from '../domain/principal.ts'
import type { SecretHash } from '../domain/secrets.ts'

/** A repeated replay writes at most one event an hour, so a client in a loop cannot fill the table. */
const windowSeconds = 3600

/** Writes an event for a code that was used again. Only this failure runs the statement. */
export async function noteCodeReplay(db: Queryable, by: Principal, codeHash: SecretHash): Promise<void> {
  await insertReplay(db, by, codeHash, {
    action: 'code-replayed',
    from: `authorization_code o join authorization_grant g on g.id = coalesce(o.grant_id, o.authorization_id)
            where o.code_hash = $1`,
  })
}

/** Writes an event for a refresh token that was used after its grace period. */
export async function noteTokenReuse(db: Queryable, by: Principal, refreshHash: SecretHash): Promise<void> {
  await insertReplay(db, by, refreshHash, {
    action: 'refresh-token-reused',
    from: `token_pair p join authorization_grant g on g.id = coalesce(p.grant_id, p.authorization_id)
            where p.refresh_hash = $1`,
  })
}

async function insertReplay(
  db: Queryable,
  by: Principal,
  hash: SecretHash,
  { action, from }: { action: 'code-replayed' | 'refresh-token-reused'; from: string },
): Promise<void> {
  const subject = `noted ${action} of ${hash.toString('hex')}`
  if ((await countAttempt(db, [{ subject, attempts: 1, windowSeconds }])) > 0) return
  await db.query(
    `select insert_events(
              jsonb_build_array(jsonb_build_object(
                'action', $2::text, 'account_id', g.account_id, 'application_id', g.application_id)),
              the_actor => $3)
       from ${from}`,
    [hash, action, describePrincipal(by)],
  )
}

import type { FastifyBaseLogger } from 'fastify'
import type { Queryable } from '../database/database.ts'

/** How many rows of a table one sweep takes at most, so that none holds locks for long. */
const rowsPerSweep = 2_000
/** Between sweeps, give or take a half, so that many processes do not come at once. A seal outlives its grace by no more. */
const sweepMilliseconds = 300_000
/** Names the sweep among the advisory locks of this database. */
const sweepLock = 7_338_001

/**
 * Removes what has expired and serves nothing any more, up to a bound per table. Answers how many rows that were.
 * Of many processes one sweeps at a time: the others answer 0.
 *
 * A used code stays as long as a pair that came of it, for its second use must end them (OAUTH 85). Pairs stay for
 * 30 days, for the same reason (OAUTH 106). Rows that someone holds are left to the next sweep.
 */
export async function sweepExpired(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ swept: number }>(
    `with turn as materialized (
       select pg_try_advisory_xact_lock($1) as mine
     ), seals as (
       update token_pair set sealed_successor = null
        where id in (select id from token_pair
                      where sealed_successor is not null and refresh_expires_at <= now() and (select mine from turn)
                      order by id limit $2 for no key update skip locked)
       returning 1
     ), pairs as (
       delete from token_pair
        where id in (select id from token_pair
                      where refresh_expires_at < now() - interval '30 days' and (select mine from turn)
                        and access_expires_at < now() - interval '30 days' and sealed_successor is null
                      order by id limit $2 for update skip locked)
       returning 1
     ), codes as (
       delete from authorization_code
        where code_hash in (select c.code_hash from authorization_code c
                             where c.expires_at < now() - interval '1 day' and (select mine from turn)
                               and not exists (select from token_pair p where p.code_hash = c.code_hash)
                             limit $2 for update skip locked)
       returning 1
     ), requests as (
       delete from authorization_request
        where id_hash in (select id_hash from authorization_request
                           where expires_at < now() - interval '1 day' and (select mine from turn)
                           limit $2 for update skip locked)
       returning 1
     ), returns as (
       delete from sign_in_return
        where id_hash in (select id_hash from sign_in_return
                           where expires_at < now() and (select mine from turn)
                           limit $2 for update skip locked)
       returning 1
     ), sessions as (
       delete from session
        where id_hash in (select id_hash from session
                           where expires_at < now() and (select mine from turn)
                           limit $2 for update skip locked)
       returning 1
     ), failures as (
       delete from auth_failure
        where key_hash in (select key_hash from auth_failure
                            where window_ends_at < now() and (select mine from turn)
                            limit $2 for update skip locked)
       returning 1
     )
     select (select count(*) from seals) + (select count(*) from pairs) + (select count(*) from codes)
          + (select count(*) from requests) + (select count(*) from returns) + (select count(*) from sessions)
          + (select count(*) from failures) as swept`,
    [sweepLock, rowsPerSweep],
  )
  return Number(rows[0]?.swept ?? 0)
}

/** Sweeps now and then for as long as the process lives. Answers the way to stop, which waits for a running sweep. */
export function sweepRegularly(db: Queryable, log: FastifyBaseLogger): () => Promise<void> {
  let running: Promise<void> = Promise.resolve()
  let isStopped = false
  let timer: NodeJS.Timeout
  function schedule(): void {
    timer = setTimeout(
      () => {
        running = sweep()
        schedule()
      },
      sweepMilliseconds * (0.5 + Math.random()),
    ).unref()
  }
  async function sweep(): Promise<void> {
    try {
      let swept: number
      do {
        swept = await sweepExpired(db)
        if (swept > 0) log.info({ swept }, 'expired rows were removed')
      } while (swept >= rowsPerSweep && !isStopped)
    } catch (error) {
      log.warn({ err: error }, 'expired rows could not be removed')
    }
  }
  schedule()
  return async () => {
    isStopped = true
    clearTimeout(timer)
    await running
  }
}

import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import { background } from '../../domain/principal.ts'
import { insertEvents } from '../../events/events.ts'
import type { Job } from '../../jobs/job.ts'
import { type ExpiredStage, markExpired, markOutdated } from '../tables/staged-versions.ts'

/** How many stages one transaction ends. */
const expiredAtOnce = 200
const expirySeconds = 600

/** Ends stages that nobody has released or rejected in 14 days. Their numbers and their archives become free. */
export const expireStagesJob: Job = {
  name: 'expire-stages',
  everySeconds: expirySeconds,
  async run({ db }, _data, signal) {
    for (let expired = expiredAtOnce; expired === expiredAtOnce; ) {
      signal.throwIfAborted()
      expired = await transaction(db, (tx) => expireStages(tx, expiredAtOnce))
    }
  },
}

/** Ends stages whose time is over, at most `limit`: all, or the one with a number. Writes the events. Returns how many. */
export async function expireStages(
  tx: pg.PoolClient,
  limit: number,
  number?: Parameters<typeof markExpired>[2],
): Promise<number> {
  const expired = await markExpired(tx, limit, number)
  await noteExpired(tx, expired)
  return expired.length
}

/** Ends the stage of a branch that has a newer commit. Writes the event. */
export async function endStage(tx: pg.PoolClient, stage: ExpiredStage): Promise<void> {
  await markOutdated(tx, stage.id)
  await noteExpired(tx, [stage])
}

async function noteExpired(tx: pg.PoolClient, expired: readonly ExpiredStage[]): Promise<void> {
  const events = expired.map(({ id, repositoryId, packageName, version, sha256 }) => ({
    action: 'expire' as const,
    repositoryId,
    packageName,
    version,
    details: { stage: id, sha256 },
  }))
  await insertEvents(tx, background, events)
}

import type { EventSettings } from '../config.ts'
import type { Queryable } from '../database/database.ts'
import type { Job } from '../jobs/job.ts'

/**
 * Erases the client IPs of old events, and removes older ones. At most `limit` each. Returns how many.
 */
export async function sweepEvents(
  db: Queryable,
  { retentionDays, ipDays }: EventSettings,
  limit: number,
): Promise<number> {
  const { rows } = await db.query<{ swept: number }>(
    'select sweep_events(retention_days => $1, ip_days => $2, max_count => $3) as swept',
    [retentionDays, ipDays, limit],
  )
  return rows[0]?.swept ?? 0
}

const rowsPerStatement = 2_000

/** Erases client IPs of old events, and removes old events (EVENT_IP_DAYS, EVENT_RETENTION_DAYS). */
export const sweepEventsJob: Job = {
  name: 'sweep-events',
  everySeconds: 3600,
  async run({ config, db }, _data, signal) {
    while ((await sweepEvents(db, config.events, rowsPerStatement)) > 0) signal.throwIfAborted()
  },
}

import type { Job } from '../jobs/job.ts'
import { rollDownloads } from './tables/downloads.ts'
import { sweepEvents } from './tables/events.ts'

/** How many rows one statement changes. */
const rowsPerStatement = 2_000

/** Adds days of downloads that are older than 90 days to their months. */
export const rollDownloadsJob: Job = {
  name: 'roll-downloads',
  everySeconds: 6 * 3600,
  async run({ db }, _data, signal) {
    while ((await rollDownloads(db, rowsPerStatement)) > 0) signal.throwIfAborted()
  },
}

/** Erases client IPs of old events, and removes old events (EVENT_IP_DAYS, EVENT_RETENTION_DAYS). */
export const sweepEventsJob: Job = {
  name: 'sweep-events',
  everySeconds: 3600,
  async run({ config, db }, _data, signal) {
    while ((await sweepEvents(db, config.events, rowsPerStatement)) > 0) signal.throwIfAborted()
  },
}

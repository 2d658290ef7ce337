import { transaction } from '../database/database.ts'
import type { Job } from '../jobs/job.ts'
import { logIdentityEvents, sweepIdentityEvents } from './identity-events.ts'

const rowsPerStatement = 2_000
const eventsPerTransaction = 500

/**
 * Writes identity events to the log, as JSON lines with a stable `event`, such as `identity.sign-in`. Each is logged
 * once, whether a server, a command or a migration caused it; after a crash possibly twice.
 */
export const logIdentityEventsJob: Job = {
  name: 'log-identity-events',
  everySeconds: 10,
  async run({ db, log }, _data, signal) {
    while ((await transaction(db, (tx) => logIdentityEvents(tx, log, eventsPerTransaction))) > 0) {
      signal.throwIfAborted()
    }
  },
}

/** Erases client IPs of old identity events, and removes old events (EVENT_IP_DAYS, EVENT_RETENTION_DAYS). */
export const sweepIdentityEventsJob: Job = {
  name: 'sweep-identity-events',
  everySeconds: 3600,
  async run({ config, db }, _data, signal) {
    while ((await sweepIdentityEvents(db, config.events, rowsPerStatement)) > 0) signal.throwIfAborted()
  },
}

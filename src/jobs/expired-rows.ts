import type { Config } from '../config.ts'
import type { Queryable } from '../database/database.ts'
import type { Job } from './job.ts'
import { deleteExpiredJobs } from './job-rows.ts'

/** How many rows of a table one statement deletes at most, so that it holds its locks for a short time. */
const rowsPerStatement = 2_000
/** The interval of the sweep. A sealed token pair (CONTRACT 5.3) is deleted at most this long after its grace period. */
const sweepSeconds = 300

/**
 * Deletes expired rows of a table, at most `limit`, and returns how many. Table files export such functions
 * (`deleteExpired…`); `server/jobs.ts` lists them. Locked rows are skipped: the next sweep deletes them.
 */
export type DeleteExpired = (db: Queryable, limit: number, config: Config) => Promise<number>

/** The job that runs all sweeps, one after another. When one sweep throws, the others still run. */
export function sweepJob(sweeps: readonly DeleteExpired[]): Job {
  return {
    name: 'delete-expired-rows',
    everySeconds: sweepSeconds,
    async run({ config, db, log }, _data, signal) {
      let deleted = 0
      const errors: unknown[] = []
      for (const sweep of [deleteExpiredJobs, ...sweeps]) {
        try {
          let count: number
          do {
            signal.throwIfAborted()
            count = await sweep(db, rowsPerStatement, config)
            deleted += count
          } while (count >= rowsPerStatement)
        } catch (error) {
          errors.push(error)
        }
      }
      if (deleted > 0) log.info({ deleted }, 'expired rows were deleted')
      if (errors.length > 0) throw errors[0]
    },
  }
}

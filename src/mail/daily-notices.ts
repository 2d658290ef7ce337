import type pg from 'pg'
import type { Config } from '../config.ts'
import { transaction } from '../database/database.ts'
import type { Job } from '../jobs/job.ts'

/** Mails about things that end soon. */
interface DailyNotices {
  /** The name of the job. */
  name: string
  /** How many things one transaction takes at most. */
  limit: number
  /** Marks at most `limit` things that end soon as noted, and queues the mails about them. Returns how many it has marked. */
  note: (tx: pg.PoolClient, config: Config, limit: number) => Promise<number>
}

/** Returns the job that queues such mails once a day. Without a mail server it does nothing. */
export function dailyNotices({ name, limit, note }: DailyNotices): Job {
  return {
    name,
    everySeconds: 86_400,
    async run({ config, db }, _data, signal) {
      if (config.mail === null) return
      for (let noted = limit; noted === limit; ) {
        signal.throwIfAborted()
        noted = await transaction(db, (tx) => note(tx, config, limit))
      }
    },
  }
}

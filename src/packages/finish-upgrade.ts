import type { Job } from '../jobs/job.ts'
import { recountDownloads } from './tables/downloads.ts'

/**
 * Adds what is missing in the rows that processes of the previous release wrote while they ran beside this one. There,
 * triggers did it. A migration enqueues this job. `day` is the day of the upgrade (UTC).
 */
export const finishUpgradeJob: Job<{ day: string }> = {
  name: 'finish-upgrade',
  singleton: true,
  async run({ db }, { day }) {
    await recountDownloads(db, day)
  },
}

import { deleteExpiredCredentials, sweepJob } from '../jobs/expired-rows.ts'
import type { Job } from '../jobs/job.ts'
import { deleteExpiredCodes, deleteExpiredPairs, wipeSeals } from '../oauth/token-sweeps.ts'
import { collectGarbageJob } from '../registry/archives/collect-garbage.ts'

/** Every background job of the server. `jobs/job.ts` tells how to add one. */
export const jobs: readonly Job[] = [
  sweepJob([wipeSeals, deleteExpiredPairs, deleteExpiredCodes, deleteExpiredCredentials]),
  collectGarbageJob,
]

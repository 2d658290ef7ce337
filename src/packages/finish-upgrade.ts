import { transaction } from '../database/database.ts'
import { completeDocuments, listFilteredRepositories, renderFilter } from '../documents/filter-document.ts'
import { enqueue, type Job } from '../jobs/job.ts'
import { claimVendorOfPackage } from '../upstreams/tables/vendor-claims.ts'
import { listDependenciesJob } from './tables/dependencies.ts'
import { rankUnrankedPackages, recountDownloads } from './tables/downloads.ts'
import { listVendorsOfNewPackages } from './tables/packages.ts'

/**
 * Adds what is missing in the rows that processes of the previous release wrote while they ran beside this one. There,
 * triggers did it. A migration enqueues this job. `day` is the day of the upgrade (UTC).
 */
export const finishUpgradeJob: Job<{ day: string }> = {
  name: 'finish-upgrade',
  singleton: true,
  async run({ db }, { day }, signal) {
    for (const created of await listVendorsOfNewPackages(db, day)) {
      signal.throwIfAborted()
      await transaction(db, (tx) => claimVendorOfPackage(tx, created))
    }
    await rankUnrankedPackages(db)
    await completeDocuments(db)
    for (const repositoryId of await listFilteredRepositories(db)) {
      signal.throwIfAborted()
      await renderFilter(db, repositoryId)
    }
    await recountDownloads(db, day)
    await enqueue(db, listDependenciesJob, {})
  },
}

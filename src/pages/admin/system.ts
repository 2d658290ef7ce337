import { statfs } from 'node:fs/promises'
import type { FastifyInstance } from 'fastify'
import { type AccountCounts, countAccounts } from '../../accounts/accounts.ts'
import { type DatabaseState, findDatabaseState } from '../../database/installation.ts'
import { page } from '../../http/pages.ts'
import { countJobs, type JobCount } from '../../jobs/job-rows.ts'
import { type ApplicationStatus, countApplications } from '../../oauth/applications.ts'
import { openArchiveStore } from '../../registry/archives/store-owner.ts'
import { countArchives } from '../../registry/tables/archives.ts'
import { countGroups } from '../../repositories/groups.ts'
import type { AdminContext } from './administrator.ts'

const overviewPage = page<{
  accounts: AccountCounts
  applications: Partial<Record<ApplicationStatus, number>>
  registry: { groups: number; repositories: number; packages: number }
  failedJobs: number
}>('admin/overview')

const systemPage = page<{
  database: DatabaseState
  isEmbedded: boolean
  node: string
  /** Of this process, in seconds. */
  uptimeSeconds: number
  store: { place: string; archives: number; bytes: number }
  jobs: JobCount[]
  /** Null: never. */
  collectedAt: Date | null
  disk: { directory: string; freeBytes: number; allBytes: number } | null
}>('admin/system')

/** `/admin`: counts of everything; `/admin/system`: the state of the installation. */
export async function systemRoutes(
  app: FastifyInstance,
  { config, db, sessionOf }: AdminContext,
): Promise<void> {
  app.get('/admin', async (request, reply) => {
    const [accounts, applications, registry, jobs] = await Promise.all([
      countAccounts(db),
      countApplications(db),
      countGroups(db),
      countJobs(db),
    ])
    const failedJobs = jobs.reduce((sum, { failed }) => sum + failed, 0)
    return overviewPage(reply, sessionOf(request), { accounts, applications, registry, failedJobs })
  })

  app.get('/admin/system', async (request, reply) => {
    const { place } = await openArchiveStore(config)
    const [database, archives, jobs, disk] = await Promise.all([
      findDatabaseState(db),
      countArchives(db),
      countJobs(db),
      measureDisk(config.dataDir),
    ])
    const collected = jobs.find(({ name }) => name === 'collect-garbage')?.succeededAt ?? null
    return systemPage(reply, sessionOf(request), {
      database,
      isEmbedded: config.databaseUrl === null,
      node: process.version,
      uptimeSeconds: process.uptime(),
      store: { place, ...archives },
      jobs: jobs.toSorted((one, other) => one.name.localeCompare(other.name)),
      collectedAt: collected === null ? null : new Date(collected * 1000),
      disk,
    })
  })
}

/** Measures the disk of a folder. Null when the file system has no figures. */
async function measureDisk(directory: string) {
  const { blocks, bavail, bsize } = await statfs(directory)
  return blocks === 0 ? null : { directory, freeBytes: bavail * bsize, allBytes: blocks * bsize }
}

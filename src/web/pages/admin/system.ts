import type { FastifyInstance } from 'fastify'
import { type AccountCounts, countAccounts } from '../../../accounts/accounts.ts'
import { countGroups } from '../../../groups/groups.ts'
import { countJobs } from '../../../jobs/job-rows.ts'
import { type ApplicationStatus, countApplications } from '../../../oauth/applications.ts'
import { page } from '../../pages.ts'
import { readSystemState, type SystemState } from '../../server/system-state.ts'
import type { AdminContext } from './administrator.ts'

const overviewPage = page<{
  accounts: AccountCounts
  applications: Partial<Record<ApplicationStatus, number>>
  registry: { groups: number; repositories: number; packages: number }
  failedJobs: number
}>('admin/overview')

const systemPage = page<
  SystemState & {
    node: string
    /** The uptime of this process. */
    uptimeSeconds: number
  }
>('admin/system')

/** `/admin` shows counts of everything. `/admin/system` shows the state of the installation. */
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
    const state = await readSystemState(db, config)
    return systemPage(reply, sessionOf(request), {
      ...state,
      node: process.version,
      uptimeSeconds: process.uptime(),
    })
  })
}

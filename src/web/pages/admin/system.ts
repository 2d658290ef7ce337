import type { FastifyInstance } from 'fastify'
import { type AccountCounts, countAccounts } from '../../../accounts/accounts.ts'
import { countGroups } from '../../../groups/groups.ts'
import { type ApplicationStatus, countApplications } from '../../../oauth/applications.ts'
import { countWaitingDocuments } from '../../../oauth/client-documents.ts'
import { findFirstRecordedDay } from '../../../packages/tables/recorded-downloads.ts'
import { listSiteDays, type SiteDay, shownDays } from '../../../packages/tables/site-days.ts'
import { listWaitingDecisions } from '../../../upstreams/tables/waiting-decisions.ts'
import { page } from '../../pages.ts'
import { readSystemState, type SystemState } from '../../server/system-state.ts'
import { type Need, needsOfSite } from '../needs.ts'
import type { AdminContext } from './administrator.ts'

/** How many repositories with waiting decisions the overview names. */
const maxDecisions = 10

const overviewPage = page<
  Pick<SystemState, 'backedUpAt' | 'disk'> & {
    accounts: AccountCounts
    applications: Partial<Record<ApplicationStatus, number>>
    registry: { groups: number; repositories: number; packages: number }
    needs: Need[]
    days: SiteDay[]
    /** The first day on which sent archives were recorded. Null when that is not known, or there is none. */
    recordedSince: string | null
  }
>('admin/overview')

const systemPage = page<
  SystemState & {
    node: string
    /** The uptime of this process. */
    uptimeSeconds: number
  }
>('admin/system')

/**
 * `/admin` shows what needs attention, the last 30 days, and counts of everything. `/admin/system` shows the state of
 * the installation.
 */
export async function systemRoutes(
  app: FastifyInstance,
  { config, db, sessionOf }: AdminContext,
): Promise<void> {
  app.get('/admin', async (request, reply) => {
    const [accounts, applications, registry, state, decisions, days, firstRecord, waitingDocuments] =
      await Promise.all([
        countAccounts(db),
        countApplications(db),
        countGroups(db),
        readSystemState(db, config),
        listWaitingDecisions(db, null, maxDecisions),
        listSiteDays(db),
        findFirstRecordedDay(db),
        countWaitingDocuments(db),
      ])
    // The figures of a day are kept longer than its records.
    const recordedSince = config.events.retentionDays < shownDays ? null : firstRecord
    const needs = needsOfSite(
      state,
      { pendingApplications: applications.pending ?? 0, waitingDocuments },
      accounts['without-second-factor'],
      decisions,
    )
    return overviewPage(reply, sessionOf(request), {
      accounts,
      applications,
      registry,
      needs,
      days,
      recordedSince,
      backedUpAt: state.backedUpAt,
      disk: state.disk,
    })
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

import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import { listSiteAdministrators } from '../../accounts/accounts.ts'
import { hasLiveToken, listExpiringTokens } from '../../accounts/personal-tokens.ts'
import type { Session } from '../../accounts/sessions.ts'
import type { AppContext } from '../../context.ts'
import { formatCount } from '../../domain/formats.ts'
import { pageOf } from '../../domain/paging.ts'
import { putIntoWords } from '../../events/event-words.ts'
import {
  type AccessibleGroup,
  type AccessibleRepository,
  accountReader,
  listAccessibleGroups,
  listAccessibleRepositories,
} from '../../groups/accessible-repositories.ts'
import { listExpiringDeployTokens } from '../../groups/deploy-tokens.ts'
import { type GroupOfUnprotected, listGroupsOfUnprotected } from '../../groups/members.ts'
import { countApplications } from '../../oauth/applications.ts'
import {
  addContents,
  listRecentPackageEvents,
  maxCounted,
  type PackageEvent,
  type RepositoryContent,
} from '../../packages/tables/dashboard.ts'
import { listWaitingStages, type WaitingStages } from '../../packages/tables/staged-versions.ts'
import { listTroubledSources } from '../../sources/sources.ts'
import { listWaitingDecisions } from '../../upstreams/tables/waiting-decisions.ts'
import { readQuery, text } from '../forms.ts'
import { page } from '../pages.ts'
import { findDemo, isOfDemo } from '../server/demo.ts'
import { anybody } from '../visit.ts'
import { type Need, needsOf, needsOfApplications, needsOfSources } from './needs.ts'

const repositoriesPerPage = 50
const maxGroups = 12
const maxPackages = 10
/** The latest events from which the recent packages are taken. */
const maxEvents = 50
const maxNeeds = 10
/** The page shows tokens that expire within this many days, so that people can replace them in time. */
const expiryDays = 14
const maxTokens = 5
const maxAdministrators = 3

const frontPage = page<{ hasDemo: boolean }>('pages/front')
const listPage = page<RepositoryList>('pages/my-repositories')
const dashboardPage = page<
  RepositoryList & {
    groups: AccessibleGroup[]
    /** By the name of the group. Null when the page does not list all repositories of the account. */
    contentOfGroups: Map<string, RepositoryContent> | null
    hasMoreGroups: boolean
    events: (PackageEvent & { sentence: string })[]
    /** What waits for the account as an admin of groups and repositories, and as a site administrator. */
    needs: Need[]
    expiring: { name: string; expiresAt: Date; isExpired: boolean }[]
    /** Deploy tokens of the groups that the account administers. */
    expiringDeployTokens: { group: string; name: string; expiresAt: Date; isExpired: boolean }[]
    /** Whether the account has a valid token. */
    hasToken: boolean
    /** The people who can give access. Empty when the account can already see a repository. */
    administrators: string[]
    /** The demo, for its own accounts. Null for everybody else. */
    demo: { repository: string } | null
  }
>('pages/home')

interface RepositoryList {
  repositories: (AccessibleRepository & { content: RepositoryContent | undefined })[]
  maxCounted: number
  search: string
  /** The cursor of the next page: a path. Null on the last page. */
  next: string | null
}

const HomeQuery = z.object({ q: text, after: text })

/** `GET /`: the dashboard of the signed-in account, or the front page for other visitors. */
export async function homeRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const isEmbedded = context.config.databaseUrl === null
  app.get(
    '/',
    anybody(context, async (session, request, reply) => {
      if (!session)
        return frontPage(reply, null, { hasDemo: isEmbedded && (await findDemo(context.db)) !== null })
      const { q, after } = readQuery(HomeQuery, request)
      const search = q.trim().slice(0, 200)
      const list = await readList(context, session, search, after)
      if (search !== '' || after !== '') return listPage(reply, session, list)
      return showDashboard(context, reply, session, list)
    }),
  )
}

async function readList(
  { db }: AppContext,
  session: Session,
  search: string,
  after: string,
): Promise<RepositoryList> {
  const reader = accountReader(session.account.id)
  const { rows: repositories, next } = await pageOf(
    (part) => listAccessibleRepositories(db, reader, { ...part, search }),
    { after, limit: repositoriesPerPage },
    ({ path }) => path,
  )
  return {
    repositories: await addContents(db, repositories),
    maxCounted,
    search,
    next,
  }
}

async function showDashboard(
  { db }: AppContext,
  reply: FastifyReply,
  session: Session,
  list: RepositoryList,
): Promise<FastifyReply> {
  const { id, isAdmin } = session.account
  const [
    groups,
    events,
    decisions,
    unprotected,
    staged,
    sources,
    expiring,
    expiringDeployTokens,
    hasToken,
    administrators,
    demo,
    applications,
  ] = await Promise.all([
    pageOf(
      (part) => listAccessibleGroups(db, accountReader(id), part),
      { after: null, limit: maxGroups },
      ({ name }) => name,
    ),
    listRecentPackageEvents(db, id, maxEvents),
    listWaitingDecisions(db, id, maxNeeds),
    listGroupsOfUnprotected(db, id, maxNeeds),
    listWaitingStages(db, id, maxNeeds),
    listTroubledSources(db, id, maxNeeds),
    listExpiringTokens(db, id, expiryDays, maxTokens),
    listExpiringDeployTokens(db, id, expiryDays, maxTokens),
    hasLiveToken(db, id),
    list.repositories.length === 0 ? listSiteAdministrators(db, maxAdministrators) : [],
    isOfDemo(session.account.username) ? findDemo(db) : null,
    isAdmin ? countApplications(db) : null,
  ])
  return dashboardPage(reply, session, {
    ...list,
    groups: groups.rows,
    contentOfGroups: list.next === null ? sumByGroup(list.repositories) : null,
    hasMoreGroups: groups.next !== null,
    events: latestOfPackages(events)
      .slice(0, maxPackages)
      .map((event) => ({ ...event, sentence: putIntoWords(event).said })),
    needs: [
      ...needsOfApplications(applications?.pending ?? 0),
      ...staged.map(needOfStages),
      ...sources.flatMap(needsOfSources),
      ...decisions.flatMap(needsOf),
      ...unprotected.map(needOf),
    ].slice(0, maxNeeds),
    expiring,
    expiringDeployTokens,
    hasToken,
    administrators,
    demo,
  })
}

/** Returns the latest event of each package. */
function latestOfPackages(events: readonly PackageEvent[]): PackageEvent[] {
  const seen = new Set<string>()
  return events.filter(({ repositoryPath, packageName }) => {
    const key = `${repositoryPath} ${packageName}`
    return !seen.has(key) && seen.add(key)
  })
}

function needOf({ group, members, isDue }: GroupOfUnprotected): Need {
  const have = members === 1 ? 'has' : 'have'
  const lack = isDue ? 'no role until they set up a second factor' : 'no second factor yet'
  return {
    words: `${formatCount(members, 'member')} of ${group} ${have} ${lack}`,
    url: `/${group}/-/settings/second-factor`,
  }
}

function needOfStages({ path, count, isMore }: WaitingStages): Need {
  const counted = isMore ? `More than ${count} staged versions` : formatCount(count, 'staged version')
  return {
    words: `${counted} of ${path} ${count === 1 ? 'waits' : 'wait'} for release`,
    url: `/${path}/-/stages`,
  }
}

/** Adds up the contents of the repositories of each group. So a group shows no more than its repositories do. */
function sumByGroup(repositories: RepositoryList['repositories']): Map<string, RepositoryContent> {
  const sums = new Map<string, RepositoryContent>()
  for (const { path, content } of repositories) {
    const group = path.split('/')[0] as string
    const { packages, lastPublishedAt } = sums.get(group) ?? { packages: 0, lastPublishedAt: null }
    const latest = Math.max(lastPublishedAt?.getTime() ?? 0, content?.lastPublishedAt?.getTime() ?? 0)
    sums.set(group, {
      packages: packages + (content?.packages ?? 0),
      lastPublishedAt: latest === 0 ? null : new Date(latest),
    })
  }
  return sums
}

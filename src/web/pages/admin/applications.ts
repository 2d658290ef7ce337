import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { Queryable } from '../../../database/database.ts'
import { keepsMigrations } from '../../../database/operator-migrations.ts'
import { pageOf } from '../../../domain/paging.ts'
import { enforcedScopes } from '../../../domain/permissions.ts'
import {
  type DescribedScope,
  describeResourceScopeOfOthers,
  describeScopes,
} from '../../../domain/scope-descriptions.ts'
import { covers, isOpenidScope } from '../../../domain/scopes.ts'
import { applicationActions } from '../../../events/actions.ts'
import { listEvents } from '../../../events/event-list.ts'
import {
  changeApplicationStatus,
  maxReasonCharacters,
  renewClientSecret,
} from '../../../oauth/application-changes.ts'
import {
  type Application,
  type ApplicationStatus,
  type ApplicationUse,
  applicationStatuses,
  countApplications,
  findApplicationByClientId,
  findApplicationUse,
  findLogoForReview,
  listApplications,
} from '../../../oauth/applications.ts'
import { countWaitingDocuments } from '../../../oauth/client-documents.ts'
import { isClientId } from '../../../oauth/client-id.ts'
import { describeRedirects, isUnencrypted } from '../../../oauth/redirect-uri.ts'
import { type LogoutFailure, listLogoutFailures } from '../../../openid/logouts.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { setLogoHeaders } from '../../oauth/logo.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { type ShownEvent, showEvent } from '../event-rows.ts'
import { type AdminContext, goOn, orProblem } from './administrator.ts'

const applicationsPerPage = 50
const eventsInHistory = 20

/** The choices for how long the old secret works after a rotation, in seconds. */
const overlaps = {
  '0': 'not at all',
  '3600': '1 hour',
  '86400': '1 day',
  '604800': '7 days',
  '2592000': '30 days',
}

const statuses = z.enum(applicationStatuses)
const ApplicationsQuery = z.object({ state: statuses.optional(), after: text })
const MigrationQuery = z.object({ migration: text })
/** The field has several lines, the reason has one. */
const reasonText = text.transform((reason) => reason.replaceAll(/\s*\n\s*/g, ' ').trim())
const ReviewForm = z.object({
  act: z.enum(['approve', 'suspend', 'decline']),
  reason: reasonText,
  only_here: z.literal('yes').optional(),
})
const QuestionQuery = z.object({ act: z.enum(['suspend', 'decline']), reason: text })
const RotationForm = z.object({
  overlap_seconds: z.enum(Object.keys(overlaps) as [keyof typeof overlaps, ...(keyof typeof overlaps)[]]),
})

const applicationsPage = page<{
  applications: Application[]
  state: ApplicationStatus | null
  counts: Partial<Record<ApplicationStatus, number>>
  /** How many client metadata documents wait for a review. */
  waitingDocuments: number
  isContinued: boolean
  /** The cursor of the next page: a client id. Null on the last page. */
  next: string | null
}>('admin/applications')

interface ReviewContent {
  application: Application
  use: ApplicationUse
  logoutFailure: LogoutFailure | null
  scopeGroups: { title: string; scopes: (DescribedScope & { enforcement: string })[] }[]
  resourceScope: string
  /** The URLs to which it may send the browser back, in words. */
  redirects: string
  /** Whether a change is also written as a migration. */
  keepsMigrations: boolean
  /** Whether its codes go through a network without encryption. */
  isUnencrypted: boolean
  overlaps: typeof overlaps
  /** The migration that the last change has written. */
  migration: string | null
  /** The reason of a rejected form. */
  reason: string
  problem: string | null
  /** The latest actions of administrators, newest first. */
  events: ShownEvent[]
}

const applicationPage = page<ReviewContent>('admin/application')
const secretPage = page<{
  name: string
  clientId: string
  clientSecret: string
  developer: string | null
  migration: null
  overlap: string
}>('admin/client-secret')

const states = { approve: 'approved', suspend: 'suspended', decline: 'declined' } as const
const done = {
  approved: 'is approved. People can authorize it.',
  suspended: 'is suspended. None of its tokens works any more.',
  declined: 'is declined. Nobody can authorize it.',
} as const

/** What is asked before an application is suspended or declined. */
const questions = {
  suspend: {
    button: 'Suspend',
    explanation:
      'All its authorizations and tokens end at once. When it is approved again, people must authorize it again.',
    isReasonOptional: true,
  },
  decline: {
    button: 'Decline',
    explanation: 'Nobody can authorize the application, and its tokens do not work.',
    isReasonOptional: false,
  },
} as const

interface Route {
  Params: { clientId: string }
}

/** `/admin/applications` lists applications by state. `/admin/applications/<client_id>` reviews one (SPEC 1.6, 2.1). */
export async function adminApplicationRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { config, db, byOf, sessionOf } = context

  app.get('/admin/applications', async (request, reply) => {
    const { state = null, after } = readQuery(ApplicationsQuery, request)
    const { rows: applications, next } = await pageOf(
      (part) => listApplications(db, part, state),
      { after: after || null, limit: applicationsPerPage },
      ({ clientId }) => clientId,
    )
    return applicationsPage(reply, sessionOf(request), {
      applications,
      state,
      counts: await countApplications(db),
      waitingDocuments: await countWaitingDocuments(db),
      isContinued: after !== '',
      next,
    })
  })

  app.get<Route>('/admin/applications/:clientId', async (request, reply) => {
    const application = await theApplication(context, request.params.clientId)
    const { migration } = readQuery(MigrationQuery, request)
    const shown = { migration: /^\d{4}_\w{1,120}\.sql$/.test(migration) ? migration : null }
    return applicationPage(reply, sessionOf(request), await describe(context, application, shown))
  })

  app.get<Route>('/admin/applications/:clientId/logo', async (request, reply) => {
    const { clientId } = await theApplication(context, request.params.clientId)
    const logo = await findLogoForReview(db, clientId)
    if (!logo) throw pageNotFound()
    return setLogoHeaders(reply, logo).header('cache-control', 'no-store').send(logo.image)
  })

  app.get<Route>('/admin/applications/:clientId/ask', async (request, reply) => {
    const { clientId, name } = await theApplication(context, request.params.clientId)
    const { act, reason } = readQuery(QuestionQuery, request)
    const { button, explanation, isReasonOptional } = questions[act]
    const url = applicationUrl(clientId, null)
    return confirmationPage(reply, sessionOf(request), {
      title: `${button} ${name}?`,
      explanation,
      action: url,
      fields: { act },
      button,
      ask: {
        name: 'reason',
        label: 'Reason, shown to administrators and the developer',
        maxLength: maxReasonCharacters,
        isOptional: isReasonOptional,
        isLong: true,
        value: reason,
      },
      ...((await keepsMigrations(config)) && {
        choice: {
          name: 'only_here',
          label: 'Change only this database',
          hint: 'Otherwise a migration is written too.',
        },
      }),
      back: url,
    })
  })

  app.post<Route>('/admin/applications/:clientId', async (request, reply) => {
    const application = await theApplication(context, request.params.clientId)
    const { clientId, name } = application
    const { act, reason, only_here } = readForm(ReviewForm, request)
    const status = states[act]
    const by = byOf(request)
    const isUnexplained = act === 'decline' && reason === ''
    const changed = isUnexplained
      ? 'Enter a reason for declining the application.'
      : await orProblem(() =>
          changeApplicationStatus(db, config, by, clientId, {
            verb: act,
            status,
            reason: (act === 'approve' ? '' : reason) || null,
            isMigration: only_here !== 'yes',
          }),
        )
    if (changed === null) throw pageNotFound()
    if (typeof changed === 'string') {
      const content = await describe(context, application, { reason, problem: changed })
      return applicationPage(reply.code(400), sessionOf(request), content)
    }
    return goOn(context, reply, applicationUrl(clientId, changed.migration), `${name} ${done[status]}`)
  })

  app.get<Route>('/admin/applications/:clientId/secret', async (request, reply) => {
    const { clientId, name, isPublic } = await theApplication(context, request.params.clientId)
    if (isPublic) throw pageNotFound()
    const { overlap_seconds } = readQuery(RotationForm, request)
    const url = applicationUrl(clientId, null)
    const end =
      overlap_seconds === '0' ? 'stops working at once' : `works for ${overlaps[overlap_seconds]} more`
    return confirmationPage(reply, sessionOf(request), {
      title: `Generate a new secret for ${name}?`,
      explanation: `The old secret ${end}. The new one is shown once.`,
      action: `${url}/secret`,
      fields: { overlap_seconds },
      button: 'Generate new secret',
      ask: null,
      back: url,
    })
  })

  app.post<Route>('/admin/applications/:clientId/secret', async (request, reply) => {
    const { clientId, name, developer } = await theApplication(context, request.params.clientId)
    const { overlap_seconds } = readForm(RotationForm, request)
    const session = sessionOf(request)
    const by = byOf(request)
    const renewed = await orProblem(() => renewClientSecret(db, by, clientId, Number(overlap_seconds)))
    if (renewed === null) throw pageNotFound()
    if (typeof renewed === 'string') throw new PageError(409, renewed)
    const overlap = overlaps[overlap_seconds]
    return secretPage(reply, session, {
      name,
      clientId,
      clientSecret: renewed.secret,
      developer,
      migration: null,
      overlap,
    })
  })
}

/** Returns the URL of an application's page. The page offers the given migration for download. */
export function applicationUrl(clientId: string, migration: string | null): string {
  const name = migration?.split(/[/\\]/).at(-1)
  return `/admin/applications/${encodeURIComponent(clientId)}${name ? `?migration=${encodeURIComponent(name)}` : ''}`
}

/** Finds the application with a client id. Throws the 404 page when there is none. */
export async function theApplication({ db }: AdminContext, clientId: string): Promise<Application> {
  const application = isClientId(clientId) ? await findApplicationByClientId(db, clientId) : null
  if (!application) throw pageNotFound()
  return application
}

async function describe(
  { config, db }: AdminContext,
  application: Application,
  shown: Partial<Pick<ReviewContent, 'migration' | 'reason' | 'problem'>>,
): Promise<ReviewContent> {
  return {
    migration: null,
    reason: '',
    problem: null,
    ...shown,
    application,
    use: await findApplicationUse(db, application.id),
    logoutFailure: (await listLogoutFailures(db, [application.id]))[0] ?? null,
    events: await readHistory(db, application.id),
    scopeGroups: describeScopes(application.scopes).map(({ title, scopes }) => ({
      title,
      scopes: scopes.map((scope) => ({ ...scope, enforcement: describeEnforcement(scope.scope) })),
    })),
    resourceScope: describeResourceScopeOfOthers(application.resourceScope),
    redirects: describeRedirects(application),
    keepsMigrations: await keepsMigrations(config),
    isUnencrypted: isUnencrypted(application.redirectUri),
    overlaps,
  }
}

/** Lists who registered, reviewed and changed an application. Consents are left out, because there may be millions. */
async function readHistory(db: Queryable, applicationId: string): Promise<ShownEvent[]> {
  const part = { after: null, limit: eventsInHistory }
  const events = await listEvents(db, { applicationId, actions: applicationActions }, part)
  return events.map((event) => showEvent(event))
}

/** Returns who checks a scope: svc, or a service that introspects the token. */
function describeEnforcement(scope: string): string {
  if (enforcedScopes.includes(scope) || isOpenidScope(scope)) return 'Enforced here'
  return enforcedScopes.some((enforced) => covers([scope], enforced))
    ? 'Reading is enforced here'
    : 'For other services'
}

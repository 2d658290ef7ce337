import type { FastifyInstance, FastifyReply } from 'fastify'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { describeResourceScope, describeScopes, type ScopeGroup } from '../../../domain/scope-descriptions.ts'
import { formatRequest } from '../../../oauth/application-request.ts'
import { listMistakes, maxLogoBytes } from '../../../oauth/application-rules.ts'
import { type Application, listApplicationsOfDeveloper } from '../../../oauth/applications.ts'
import { describeTarget, isUnencrypted } from '../../../oauth/redirect-uri.ts'
import { type LogoutFailure, listLogoutFailures } from '../../../openid/logouts.ts'
import { acceptMultipart } from '../../multipart-forms.ts'
import { PageError } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import {
  type ApplicationForm,
  emptyApplicationForm,
  readApplicationForm,
  resourceScopeWords,
} from '../application-form.ts'
import { applicationScopeChoices, type ScopeChoices } from '../scope-choices.ts'

const listPage = page<{
  applications: (Application & { host: string; logoutFailure: LogoutFailure | null })[]
}>('accounts/applications')
const requestPage = page<
  ScopeChoices & {
    form: ApplicationForm
    resourceScopes: typeof resourceScopeWords
    maxLogoBytes: number
    checked: CheckedRequest | null
  }
>('accounts/new-application')

/** The details as the server has checked them. */
interface CheckedRequest {
  /** A sentence for each broken rule. */
  mistakes: string[]
  /** Whether others in the network could read its codes. */
  isUnencrypted: boolean
  scopeGroups: ScopeGroup[]
  resourceScope: string
  /** The text for the administrators. Null with mistakes. */
  text: string | null
  /** The link that opens the text in the mail program. Null without SITE_CONTACT. */
  mailUrl: string | null
}

/** The fields of the form besides the logo need less. */
const maxBodyBytes = maxLogoBytes + 65_536
const url = '/settings/applications/new'

/**
 * `/settings/applications` lists the applications whose developer the account is, with their state.
 * `/settings/applications/new` checks the details of an application and makes the text with which its developer asks an
 * administrator for it (SPEC 1.6). Nothing is stored.
 */
export async function developerRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  acceptMultipart(app, { maxFileBytes: maxLogoBytes })
  app.get(
    '/settings/applications',
    signedIn(context, async ({ session }, _request, reply) => {
      const applications = await listApplicationsOfDeveloper(context.db, session.account.id)
      const failures = await listLogoutFailures(
        context.db,
        applications.map(({ id }) => id),
      )
      const shown = applications.map((one) => ({
        ...one,
        host: describeTarget(one.redirectUri),
        logoutFailure: failures.find(({ applicationId }) => applicationId === one.id) ?? null,
      }))
      return listPage(reply, session, { applications: shown })
    }),
  )

  app.get(
    url,
    signedIn(context, async ({ session }, _request, reply) =>
      show(reply, session, { form: emptyApplicationForm, checked: null }),
    ),
  )

  app.post(
    url,
    {
      // Before the body is read.
      onRequest: signedIn(context, { form: url }, async (_visit, request) => {
        if (!(Number(request.headers['content-length']) <= maxBodyBytes))
          throw new PageError(413, 'The logo has more than 1 MB. Go back and choose a smaller one.')
      }),
    },
    signedIn(context, { form: url }, async ({ session }, request, reply) => {
      const form = readApplicationForm(request)
      return show(reply, session, { form, checked: check(context, session, form) })
    }),
  )
}

function check({ config }: AppContext, { account }: Session, form: ApplicationForm): CheckedRequest {
  const mistakes = [
    ...listMistakes({ ...form, description: form.description || null }, config),
    ...(form.logo === null ? ['the logo is missing'] : []),
  ]
  const { site, baseUrl } = config
  const text = formatRequest(
    { ...form, developer: account.username },
    { name: site.name ?? 'svc', url: baseUrl },
  )
  // RFC 6068 §5: the lines of a body end with CRLF.
  const body = encodeURIComponent(text.replaceAll('\n', '\r\n'))
  const subject = encodeURIComponent(`Application: ${form.name}`)
  const isReady = mistakes.length === 0
  return {
    mistakes,
    isUnencrypted: isReady && isUnencrypted(form.redirectUri),
    scopeGroups: describeScopes(form.scopes),
    resourceScope: describeResourceScope(form.resourceScope),
    text: isReady ? text : null,
    mailUrl:
      isReady && site.contact !== null
        ? `mailto:${encodeURI(site.contact)}?subject=${subject}&body=${body}`
        : null,
  }
}

function show(
  reply: FastifyReply,
  session: Session,
  content: { form: ApplicationForm; checked: CheckedRequest | null },
): FastifyReply {
  return requestPage(reply, session, {
    ...content,
    ...applicationScopeChoices(),
    resourceScopes: resourceScopeWords,
    maxLogoBytes,
  })
}

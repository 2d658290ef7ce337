import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import { describeResources } from '../../../domain/resources.ts'
import { readRowId } from '../../../domain/row-id.ts'
import { describeResourceScope, describeScopes, type ScopeGroup } from '../../../domain/scope-descriptions.ts'
import {
  type Authorization,
  type AuthorizedAccess,
  endGrant,
  findLiveGrant,
  type GrantKind,
  type LiveGrant,
  listAuthorizations,
  listLiveGrants,
  listLiveGrantsOf,
  withdrawAuthorization,
} from '../../../oauth/authorizations.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'

const authorizationsListPage = page<{ authorizations: DescribedAuthorization[] }>('oauth/authorizations')

const allGrantsPage = page<{ id: string; name: string; kinds: GrantsOfKind[]; next: string | null }>(
  'oauth/all-grants',
)

/** How many grants of each application the list shows. A page of their own shows all. */
const grantsInList = 5
/** As many as an account can have of a public client (OPENID 210). */
const grantsPerPage = 20

interface DescribedAuthorization extends Omit<Authorization, 'access'> {
  access: { scopeGroups: ScopeGroup[]; repositories: string; resources: string | null }[]
  kinds: GrantsOfKind[]
  /** Whether there are more grants than those of `kinds`. */
  hasMore: boolean
}

/** Live grants with the same purpose. */
interface GrantsOfKind {
  title: string
  grants: LiveGrant[]
}

const kindTitles: Record<GrantKind, string> = {
  device: 'Devices and command lines',
  'sign-in': 'Sign-ins in a browser',
  access: 'Access while you are away',
}

/** The words for one grant of a kind. */
const kindNouns: Record<GrantKind, string> = { device: 'login', 'sign-in': 'sign-in', access: 'access' }

const WithdrawForm = z.object({ authorization: text })
const GrantsQuery = z.object({ authorization: text, after: text })
const EndForm = z.object({ grant: text })

/**
 * The user authorization management page of SPEC 2.1. It lists the access of the live grants, and withdraws it. Below each
 * application are its grants, which can be ended one by one (OPENID 211).
 */
export async function authorizationsPage(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/settings/authorizations',
    signedIn(context, async ({ session }, _request, reply) => {
      const authorizations = await listAuthorizations(db, session.account.id)
      const grants = await listLiveGrants(db, session.account.id, grantsInList + 1)
      return authorizationsListPage(reply, session, {
        authorizations: authorizations.map((one) =>
          describe(
            one,
            grants.filter(({ authorizationId }) => authorizationId === one.id),
            config.baseUrl,
          ),
        ),
      })
    }),
  )

  app.get(
    '/settings/authorizations/grants',
    signedIn(context, async ({ session }, request, reply) => {
      const { authorization, after } = readQuery(GrantsQuery, request)
      const accountId = session.account.id
      const found = (await listAuthorizations(db, accountId)).find(({ id }) => id === authorization)
      if (!found) throw pageNotFound()
      const { rows, next } = await pageOf(
        (part) => listLiveGrantsOf(db, { accountId, authorizationId: found.id }, part),
        { after: after || null, limit: grantsPerPage },
        ({ id }) => id,
      )
      return allGrantsPage(reply, session, { id: found.id, name: found.name, kinds: byKind(rows), next })
    }),
  )

  app.get(
    '/settings/authorizations/end',
    signedIn(context, async ({ session }, request, reply) => {
      const id = readRowId(readQuery(EndForm, request).grant)
      const grant = id && (await findLiveGrant(db, session.account.id, id))
      if (!grant) throw pageNotFound()
      const from = grant.deviceIp === null ? '' : ` from ${grant.deviceIp}`
      return confirmationPage(reply, session, {
        title: `End this ${kindNouns[grant.kind]} of ${grant.name}?`,
        explanation: `The tokens of this ${kindNouns[grant.kind]}${from} stop working at once. Everything else of the application stays.`,
        action: '/settings/authorizations/end',
        fields: { grant: grant.id },
        button: 'End this one',
        ask: null,
        back: '/settings/authorizations',
      })
    }),
  )

  app.post(
    '/settings/authorizations/end',
    signedIn(context, { form: '/settings/authorizations' }, async ({ session, by }, request, reply) => {
      const id = readRowId(readForm(EndForm, request).grant)
      if (id === null) throw pageNotFound()
      const grant = await findLiveGrant(db, session.account.id, id)
      const ended = grant && (await endGrant(db, by, session.account.id, id))
      leaveNotice(request, reply, config, grant && ended ? describeEnd(grant, ended) : 'It had ended before.')
      return reply.redirect('/settings/authorizations', 303)
    }),
  )

  app.get(
    '/settings/authorizations/withdraw',
    signedIn(context, async ({ session }, request, reply) => {
      const id = readRowId(readQuery(WithdrawForm, request).authorization)
      const authorizations = await listAuthorizations(db, session.account.id)
      const authorization = authorizations.find((one) => one.id === id)
      if (!authorization) throw pageNotFound()
      return confirmationPage(reply, session, {
        title: `Withdraw the authorization of ${authorization.name}?`,
        explanation: 'All tokens that the application has for your account stop working at once.',
        action: '/settings/authorizations/withdraw',
        fields: { authorization: authorization.id },
        button: 'Withdraw',
        ask: null,
        back: '/settings/authorizations',
      })
    }),
  )

  app.post(
    '/settings/authorizations/withdraw',
    signedIn(context, { form: '/settings/authorizations' }, async ({ session, by }, request, reply) => {
      const id = readRowId(readForm(WithdrawForm, request).authorization)
      if (id === null) throw pageNotFound()
      const { id: accountId } = session.account
      const name = await withdrawAuthorization(db, by, accountId, id)
      const notice =
        name === null
          ? 'The authorization was withdrawn before.'
          : `The authorization of ${name} is withdrawn. Its tokens no longer work.`
      leaveNotice(request, reply, config, notice)
      return reply.redirect('/settings/authorizations', 303)
    }),
  )
}

/** Returns the notice after a grant was ended. */
function describeEnd(
  { kind, name }: { kind: GrantKind; name: string },
  { isLast }: { isLast: boolean },
): string {
  return isLast
    ? `The last ${kindNouns[kind]} of ${name} has ended, and with it the authorization.`
    : `One ${kindNouns[kind]} of ${name} has ended. Its tokens no longer work.`
}

function byKind(grants: readonly LiveGrant[]): GrantsOfKind[] {
  return (Object.keys(kindTitles) as GrantKind[])
    .map((kind) => ({ title: kindTitles[kind], grants: grants.filter((one) => one.kind === kind) }))
    .filter((one) => one.grants.length > 0)
}

function describe(
  { access, ...authorization }: Authorization,
  grants: readonly LiveGrant[],
  baseUrl: string,
): DescribedAuthorization {
  return {
    ...authorization,
    kinds: byKind(grants.slice(0, grantsInList)),
    hasMore: grants.length > grantsInList,
    access: access.map((one) => ({
      scopeGroups: describeScopes(one.scopes),
      repositories: describeRepositories(one),
      resources: one.resources && describeResources(one.resources, baseUrl),
    })),
  }
}

function describeRepositories({ resourceScope, repositories }: AuthorizedAccess): string {
  if (resourceScope !== 'specified') return describeResourceScope(resourceScope)
  return repositories.length > 0 ? repositories.join(', ') : 'None: the chosen repositories no longer exist'
}

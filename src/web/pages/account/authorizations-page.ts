import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { describeResources } from '../../../domain/resources.ts'
import { readRowId } from '../../../domain/row-id.ts'
import { describeResourceScope, describeScopes, type ScopeGroup } from '../../../domain/scope-descriptions.ts'
import {
  type Authorization,
  type AuthorizedAccess,
  listAuthorizations,
  withdrawAuthorization,
} from '../../../oauth/authorizations.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'

const authorizationsListPage = page<{ authorizations: DescribedAuthorization[] }>('oauth/authorizations')

interface DescribedAuthorization extends Omit<Authorization, 'access'> {
  access: { scopeGroups: ScopeGroup[]; repositories: string; resources: string | null }[]
}

const WithdrawForm = z.object({ authorization: text })

/** The user authorization management page of SPEC 2.1. It lists the access of the live grants, and withdraws it. */
export async function authorizationsPage(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/settings/authorizations',
    signedIn(context, async ({ session }, _request, reply) => {
      const authorizations = await listAuthorizations(db, session.account.id)
      return authorizationsListPage(reply, session, {
        authorizations: authorizations.map((one) => describe(one, config.baseUrl)),
      })
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

function describe({ access, ...authorization }: Authorization, baseUrl: string): DescribedAuthorization {
  return {
    ...authorization,
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

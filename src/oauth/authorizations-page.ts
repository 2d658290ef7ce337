import type { FastifyInstance } from 'fastify'
import { readSession, redirectToSignIn } from '../accounts/visitor.ts'
import type { AppContext } from '../context.ts'
import { type DescribedScopes, describeResourceScope, describeScopes } from '../domain/scope-descriptions.ts'
import { notFound } from '../http/page-error.ts'
import { field, readQuery } from '../http/page-form.ts'
import { page } from '../http/pages.ts'
import {
  type Authorization,
  endAuthorization,
  findEndedAuthorization,
  listAuthorizations,
} from './authorizations.ts'

const authorizationsListPage = page<{ authorizations: WordedAuthorization[]; withdrawn: string | null }>(
  'oauth/authorizations',
)

interface WordedAuthorization extends Authorization {
  scopeGroups: DescribedScopes[]
  reach: string
}

/** The user authorization management page of SPEC 2.1: what the account has granted, and how to withdraw it. */
export async function authorizationsPage(app: FastifyInstance, context: AppContext): Promise<void> {
  const { db } = context

  app.get('/settings/authorizations', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return await redirectToSignIn(context, request, reply)
    const authorizations = await listAuthorizations(db, session.account.id)
    const ended = readId(field(readQuery(request), 'withdrawn'))
    return authorizationsListPage(reply, session, {
      authorizations: authorizations.map(word),
      withdrawn: ended === null ? null : await findEndedAuthorization(db, ended, session.account.id),
    })
  })

  app.post('/settings/authorizations/withdraw', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return await redirectToSignIn(context, request, reply, '/settings/authorizations')
    const id = readId(field(request.body, 'authorization'))
    if (id === null) throw notFound()
    await endAuthorization(db, id, session.account.id)
    return reply.redirect(`/settings/authorizations?withdrawn=${id}`, 303)
  })
}

/** Null for what no authorization can be called. */
function readId(text: string): string | null {
  return /^\d{1,18}$/.test(text) ? text : null
}

function word(authorization: Authorization): WordedAuthorization {
  return {
    ...authorization,
    scopeGroups: describeScopes(authorization.scopes),
    reach: describeResourceScope(authorization.resourceScope),
  }
}

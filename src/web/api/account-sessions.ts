import * as z from 'zod'
import { endSessions, type ListedSession, listSessions } from '../../accounts/sessions.ts'
import type { Principal } from '../../domain/principal.ts'
import { AccountPath, accountOfPath } from './accounts.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { type ApiContext, guardAdministrator, guardPerson } from './guards.ts'
import { type PageCall, PageQuery, readPage } from './paging.ts'

const Session = z
  .object({
    session: z.string().meta({
      description: 'Identifies the session. It cannot be used to sign in',
      example: '5f'.repeat(32),
    }),
    network: z
      .string()
      .meta({ description: 'The network where the session started', example: '192.0.2.0/24' }),
    last_network: z
      .string()
      .nullable()
      .meta({ description: 'The network of the last request', example: '192.0.2.0/24' }),
    user_agent: z
      .string()
      .nullable()
      .meta({ description: 'What the browser says that it is', example: 'Mozilla/5.0 (X11; Linux x86_64)' }),
    created_at: Moment.meta({ description: 'When the person signed in' }),
    last_seen_at: Moment.meta({ description: 'When the browser was last seen' }),
    expires_at: Moment.meta({ description: 'When the session ends at the latest' }),
  })
  .meta({ id: 'Session', description: 'A browser that is signed in' })

const session = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({ description: 'The value of `session` in the list', example: '5f'.repeat(32) })
const OwnSessionPath = z.object({ session })
const SessionPath = AccountPath.extend({ session })

/**
 * The sessions of an account. `/api/user/sessions` is for the account of the token, `/api/accounts/<username>/sessions`
 * is for site administrators.
 */
export async function accountSessionEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const own = guardPerson('readOwnAccess', context)
  const changesOwn = guardPerson('endOwnSession', context)
  const mayRead = guardAdministrator('readSite', context)
  const mayManage = guardAdministrator('manageAccounts', context)
  const of = '/accounts/:username'
  const tag = 'Accounts'
  const params = AccountPath

  app.get(
    '/user/sessions',
    endpoint(own, {
      operationId: 'listOwnSessions',
      tag: 'Account',
      summary: 'List the browsers that are signed in to the account',
      querystring: PageQuery,
      response: { 200: z.array(Session) },
    }),
    async (request, reply) => {
      return readSessions(own.granted(request).accountId, { request, reply, config })
    },
  )

  app.get(
    `${of}/sessions`,
    endpoint(mayRead, {
      operationId: 'listSessions',
      tag,
      summary: 'List the browsers that are signed in to an account',
      params,
      querystring: PageQuery,
      response: { 200: z.array(Session) },
    }),
    async (request, reply) => {
      const { id } = await accountOfPath(context, request.params.username)
      return readSessions(id, { request, reply, config })
    },
  )

  app.delete(
    '/user/sessions/:session',
    endpoint(changesOwn, {
      operationId: 'endOwnSession',
      tag: 'Account',
      summary: 'Sign out one browser of the account',
      params: OwnSessionPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { accountId, by } = changesOwn.granted(request)
      await endSession(by, accountId, request.params.session)
      return reply.code(204).send()
    },
  )

  app.delete(
    `${of}/sessions/:session`,
    endpoint(mayManage, {
      operationId: 'endSession',
      tag,
      summary: 'Sign out one browser of an account',
      params: SessionPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { id } = await accountOfPath(context, request.params.username)
      await endSession(mayManage.granted(request).by, id, request.params.session)
      return reply.code(204).send()
    },
  )

  app.delete(
    `${of}/sessions`,
    endpoint(mayManage, {
      operationId: 'endSessions',
      tag,
      summary: 'Sign out all browsers of an account',
      params,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { id } = await accountOfPath(context, request.params.username)
      await endSessions(db, mayManage.granted(request).by, id, 'all')
      return reply.code(204).send()
    },
  )

  function readSessions(accountId: string, call: PageCall) {
    return readPage(
      call,
      (part) => listSessions(db, accountId, part),
      ({ key }) => key,
      describeSession,
    )
  }

  async function endSession(by: Principal, accountId: string, key: string): Promise<void> {
    const ended = await endSessions(db, by, accountId, { key })
    if (ended === 0) throw notFound('session not found')
  }
}

function describeSession(one: ListedSession): z.input<typeof Session> {
  return {
    session: one.key,
    network: one.network,
    last_network: one.lastNetwork,
    user_agent: one.userAgent,
    created_at: one.createdAt.toISOString(),
    last_seen_at: one.lastSeenAt.toISOString(),
    expires_at: one.expiresAt.toISOString(),
  }
}

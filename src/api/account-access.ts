import { z } from 'zod'
import { exportAccount } from '../accounts/account-export.ts'
import { resetPassword, revokeAllAccess } from '../accounts/account-lifecycle.ts'
import { makeResetToken, resetLifetimeSeconds, resetUrl } from '../accounts/password-resets.ts'
import { findPasswordProblem, maxPasswordBytes } from '../accounts/passwords.ts'
import { findFactors, resetFactors } from '../accounts/second-factor/factors.ts'
import { listPasskeys } from '../accounts/second-factor/passkeys.ts'
import { deleteSessionsByKey, type ListedSession, listSessions } from '../accounts/sessions.ts'
import { type Actor, transaction } from '../database/database.ts'
import { makePassword } from '../domain/secrets.ts'
import { AccountPath, accountOfPath } from './accounts.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { conflict, invalidArgument, notFound } from './errors.ts'
import { type ApiContext, guardAdministrator, guardPerson } from './guards.ts'
import { type PageCall, PageQuery, readPage } from './paging.ts'

const Factors = z
  .object({
    authenticator_app_since: Moment.nullable().meta({ description: 'Null without an authenticator app' }),
    passkeys: z.array(
      z.object({
        id: z.int(),
        name: z.string().meta({ example: 'Laptop' }),
        created_at: Moment,
        last_used_at: Moment.nullable(),
      }),
    ),
    recovery_codes: z.int().meta({ description: 'How many are not used yet' }),
  })
  .meta({ id: 'Factors', description: 'The second factors of an account' })

const Session = z
  .object({
    session: z.string().meta({ description: 'Identifies the session. It cannot be used to sign in' }),
    network: z
      .string()
      .meta({ description: 'The network where the session started', example: '192.0.2.0/24' }),
    last_network: z.string().nullable(),
    user_agent: z.string().nullable(),
    created_at: Moment,
    last_seen_at: Moment,
    expires_at: Moment,
  })
  .meta({ id: 'Session', description: 'A browser that is signed in' })

const Export = z
  .record(z.string(), z.unknown())
  .meta({ id: 'AccountExport', description: 'Everything that is stored about an account, without secrets' })

const session = z
  .string()
  .regex(/^[0-9a-f]{64}$/)
  .meta({ description: 'The value of `session` in the list', example: '5f'.repeat(32) })
const OwnSessionPath = z.object({ session })
const SessionPath = AccountPath.extend({ session })

const NewPassword = z
  .strictObject({
    password: z.string().max(maxPasswordBytes).optional().meta({
      description: 'If it is missing, a password is generated and returned',
    }),
  })
  .meta({ id: 'NewPassword' })
const SetPassword = z
  .object({
    password: z
      .string()
      .nullable()
      .meta({ description: 'The generated password, which is returned once. Null for a given one' }),
  })
  .meta({ id: 'SetPassword' })
const ResetLink = z
  .object({
    url: z.string().meta({ description: 'The link to pass on. It works once' }),
    expires_in: z.int(),
  })
  .meta({ id: 'ResetLink' })
const Revoked = z
  .object({ tokens: z.int(), applications: z.int() })
  .meta({ id: 'Revoked', description: 'How many were revoked' })

/**
 * Access to an account: second factors, sessions, password, tokens and applications. `/api/user/…` is for the account of
 * the token, `/api/accounts/<username>/…` is for site administrators. People can remove their own factors only in the
 * browser, because this needs the factor.
 */
export async function accountAccessEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const [own, changesOwn] = [
    guardPerson(context, 'account-profile:r'),
    guardPerson(context, 'account-profile:rw'),
  ]
  const mayRead = guardAdministrator(context, 'group-manage:r')
  const mayManage = guardAdministrator(context, 'group-manage:rw')
  const of = '/accounts/:username'
  const tag = 'Accounts'
  const params = AccountPath

  app.get(
    '/user/factors',
    endpoint(own, {
      operationId: 'getOwnFactors',
      tag: 'Account',
      summary: 'Get the second factors of the account',
      response: { 200: Factors },
    }),
    async (request) => readFactors(own.granted(request).accountId),
  )

  app.get(
    `${of}/factors`,
    endpoint(mayRead, {
      operationId: 'getFactors',
      tag,
      summary: 'Get the second factors of an account',
      params,
      response: { 200: Factors },
    }),
    async (request) => readFactors((await accountOfPath(context, request.params.username)).id),
  )

  app.delete(
    `${of}/factors`,
    endpoint(mayManage, {
      operationId: 'resetFactors',
      tag,
      summary: 'Remove the second factors and recovery codes of somebody who lost them',
      params,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { accountId, actor } = mayManage.granted(request)
      const { id } = await accountOfPath(context, request.params.username)
      if (id === accountId)
        throw conflict('you cannot do this to your own account: ask another administrator')
      await resetFactors(db, actor, id)
      return reply.code(204).send()
    },
  )

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
      const { accountId, actor } = changesOwn.granted(request)
      await endSession(actor, accountId, request.params.session)
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
      await endSession(mayManage.granted(request).actor, id, request.params.session)
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
      await transaction(db, (tx) => deleteSessionsByKey(tx, id, ''), mayManage.granted(request).actor)
      return reply.code(204).send()
    },
  )

  app.get(
    '/user/export',
    endpoint(own, {
      operationId: 'exportOwnAccount',
      tag: 'Account',
      summary: 'Get everything that is stored about the account, without secrets',
      response: { 200: Export },
    }),
    async (request) => readExport(own.granted(request).accountId),
  )

  app.get(
    `${of}/export`,
    endpoint(mayRead, {
      operationId: 'exportAccount',
      tag,
      summary: 'Get everything that is stored about an account, without secrets',
      params,
      response: { 200: Export },
    }),
    async (request) => readExport((await accountOfPath(context, request.params.username)).id),
  )

  app.put(
    `${of}/password`,
    endpoint(mayManage, {
      operationId: 'setPassword',
      tag,
      summary: 'Set the password of an account and end all its sessions',
      params,
      body: NewPassword,
      response: { 200: SetPassword },
    }),
    async (request) => {
      const { id, username } = await accountOfPath(context, request.params.username)
      const { password: given } = request.body
      const problem = given === undefined ? null : findPasswordProblem(given, username)
      if (problem !== null) throw invalidArgument(`password: ${problem}`)
      const password = given ?? makePassword()
      await resetPassword(db, mayManage.granted(request).actor, id, password)
      return { password: given === undefined ? password : null }
    },
  )

  app.post(
    `${of}/reset-link`,
    endpoint(mayManage, {
      operationId: 'createResetLink',
      tag,
      summary: 'Create a link to set a new password',
      params,
      response: { 201: ResetLink },
    }),
    async (request, reply) => {
      const { id } = await accountOfPath(context, request.params.username)
      const token = await makeResetToken(db, mayManage.granted(request).actor, id)
      if (token === null) throw conflict('the account is disabled')
      return reply.code(201).send({ url: resetUrl(config, token), expires_in: resetLifetimeSeconds })
    },
  )

  app.post(
    `${of}/revoke-all`,
    endpoint(mayManage, {
      operationId: 'revokeAll',
      tag,
      summary: 'Revoke all tokens of an account and withdraw all its applications',
      params,
      response: { 200: Revoked },
    }),
    async (request) => {
      const { id } = await accountOfPath(context, request.params.username)
      return revokeAllAccess(db, mayManage.granted(request).actor, id)
    },
  )

  async function readFactors(accountId: string): Promise<z.input<typeof Factors>> {
    const { totpSince, recoveryCodes } = await findFactors(db, accountId)
    const passkeys = await listPasskeys(db, accountId)
    return {
      authenticator_app_since: totpSince?.toISOString() ?? null,
      passkeys: passkeys.map(({ id, name, createdAt, lastUsedAt }) => ({
        id: Number(id),
        name,
        created_at: createdAt.toISOString(),
        last_used_at: lastUsedAt?.toISOString() ?? null,
      })),
      recovery_codes: recoveryCodes,
    }
  }

  function readSessions(accountId: string, call: PageCall) {
    return readPage(
      call,
      (part) => listSessions(db, accountId, part),
      ({ key }) => key,
      describeSession,
    )
  }

  async function endSession(actor: Actor, accountId: string, key: string): Promise<void> {
    const ended = await transaction(db, (tx) => deleteSessionsByKey(tx, accountId, key), actor)
    if (ended === 0) throw notFound('session not found')
  }

  async function readExport(accountId: string): Promise<z.input<typeof Export>> {
    const exported = await exportAccount(db, accountId)
    if (!exported) throw notFound('account not found')
    return exported as z.input<typeof Export>
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

import * as z from 'zod'
import { exportAccount } from '../../accounts/account-export.ts'
import { resetPassword, revokeAllAccess } from '../../accounts/account-lifecycle.ts'
import { makeResetToken, resetLifetimeSeconds, resetUrl } from '../../accounts/password-resets.ts'
import { findPasswordProblem, maxPasswordBytes } from '../../accounts/passwords.ts'
import { findFactors, resetFactors } from '../../accounts/second-factor/factors.ts'
import { listPasskeys } from '../../accounts/second-factor/passkeys.ts'
import { makePassword } from '../../domain/secrets.ts'
import {
  AccountPath,
  accountOfPath,
  endEverythingMember,
  refuseAdministrator,
  refuseOwn,
} from './accounts.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { conflict, invalidArgument, notFound } from './errors.ts'
import { type ApiContext, guardAdministrator, guardPerson } from './guards.ts'

const Factors = z
  .object({
    authenticator_app_since: Moment.nullable().meta({
      description: 'When the authenticator app was added. Null without one',
    }),
    passkeys: z
      .array(
        z.object({
          id: z.int().meta({ description: 'Number of the passkey', example: 17 }),
          name: z.string().meta({ description: 'The name that its owner gave it', example: 'Laptop' }),
          created_at: Moment.meta({ description: 'When it was added' }),
          last_used_at: Moment.nullable().meta({ description: 'Null when it was never used' }),
        }),
      )
      .meta({ description: 'The passkeys of the account' }),
    recovery_codes: z.int().meta({ description: 'How many are not used yet', example: 8 }),
  })
  .meta({ id: 'Factors', description: 'The second factors of an account' })

const Export = z.record(z.string(), z.unknown()).meta({
  id: 'AccountExport',
  description:
    'Everything that is stored about an account, without secrets. At most the latest 10,000 events',
})

const NewPassword = z
  .strictObject({
    password: z.string().max(maxPasswordBytes).optional().meta({
      description: 'If it is missing, a password is generated and returned',
      example: 'correct horse battery staple',
    }),
    end_everything: endEverythingMember.optional(),
  })
  .meta({ id: 'NewPassword' })
const SetPassword = z
  .object({
    password: z.string().nullable().meta({
      description: 'The generated password, which is returned once. Null for a given one',
      example: 'k7Qw2ZpLx9RtB4nVc8MdYs1Ge',
    }),
  })
  .meta({ id: 'SetPassword' })
const ResetLink = z
  .object({
    url: z.string().meta({
      description: 'The link to pass on. It works once',
      example: 'https://svc.example.com/password-reset?token=3yTq',
    }),
    expires_in: z.int().meta({ description: 'Seconds until the link expires', example: 3600 }),
  })
  .meta({ id: 'ResetLink' })
const Revoked = z
  .object({
    tokens: z.int().meta({ description: 'Personal access tokens', example: 2 }),
    applications: z.int().meta({ description: 'Authorizations of applications', example: 1 }),
  })
  .meta({ id: 'Revoked', description: 'How many were revoked' })

/**
 * The credentials of an account: second factors, password, tokens and applications; and its export. `/api/user/…` is for
 * the account of the token, `/api/accounts/<username>/…` is for site administrators. People can remove their own factors
 * only in the browser, because this needs the factor.
 */
export async function accountCredentialEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const own = guardPerson('readOwnAccess', context)
  const exportsOwn = guardPerson('exportOwnAccount', context)
  const mayRead = guardAdministrator('readSite', context)
  const mayManage = guardAdministrator('manageAccounts', context)
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
      const person = mayManage.granted(request)
      const account = await accountOfPath(context, request.params.username)
      refuseOwn(person, account)
      refuseAdministrator(person, account)
      await resetFactors(db, person.by, account.id)
      return reply.code(204).send()
    },
  )

  app.get(
    '/user/export',
    endpoint(exportsOwn, {
      operationId: 'exportOwnAccount',
      tag: 'Account',
      summary: 'Get everything that is stored about the account, without secrets',
      response: { 200: Export },
    }),
    async (request) => readExport(exportsOwn.granted(request).accountId),
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
      summary: 'Set the password of an account and end all its sessions, or everything',
      params,
      body: NewPassword,
      response: { 200: SetPassword },
    }),
    async (request) => {
      const person = mayManage.granted(request)
      const account = await accountOfPath(context, request.params.username)
      refuseAdministrator(person, account)
      const { id, username } = account
      const { password: given, end_everything } = request.body
      const problem = given === undefined ? null : findPasswordProblem(given, username)
      if (problem !== null) throw invalidArgument(`password: ${problem}`)
      const password = given ?? makePassword()
      await resetPassword(db, person.by, id, password, end_everything === true)
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
      const person = mayManage.granted(request)
      const account = await accountOfPath(context, request.params.username)
      refuseAdministrator(person, account)
      const token = await makeResetToken(db, person.by, account.id)
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
      return revokeAllAccess(db, mayManage.granted(request).by, id)
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

  async function readExport(accountId: string): Promise<z.input<typeof Export>> {
    const exported = await exportAccount(db, accountId)
    if (!exported) throw notFound('account not found')
    return exported as z.input<typeof Export>
  }
}

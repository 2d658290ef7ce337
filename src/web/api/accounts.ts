import * as z from 'zod'
import { chooseHeir, createAccount, deleteAccount, updateAccount } from '../../accounts/account-lifecycle.ts'
import {
  type AccountDetails,
  accountStates,
  findAccountDetails,
  findAccountDetailsById,
  listAccounts,
} from '../../accounts/accounts.ts'
import { findPasswordProblem, maxPasswordBytes } from '../../accounts/passwords.ts'
import { plainText } from '../../domain/plain-text.ts'
import { makePassword } from '../../domain/secrets.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { conflict, invalidArgument, keepingRules, notFound } from './errors.ts'
import { type ApiContext, guardAdministrator, type PersonGrant, requireOnSite } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

const Account = z
  .object({
    id: z.int().meta({ description: 'Never changes and is never reused', example: 42 }),
    username: z.string().meta({ description: 'The name for signing in and in URLs', example: 'alice' }),
    name: z.string().meta({ description: 'Display name; may be empty', example: 'Alice Doe' }),
    email: z.string().nullable().meta({ description: 'Null without an email', example: 'alice@example.com' }),
    email_verified_at: Moment.nullable().meta({ description: 'Null while the email is not verified' }),
    admin: z.boolean().meta({ description: 'Whether it is a site administrator' }),
    groups: z
      .array(z.string())
      .meta({ description: 'The groups that the account is a member of', example: ['acme'] }),
    sessions: z.int().meta({ description: 'The number of browsers that are signed in', example: 1 }),
    tokens: z.int().meta({ description: 'The number of valid personal access tokens', example: 2 }),
    created_at: Moment.meta({ description: 'When the account was created' }),
    last_seen_at: Moment.nullable().meta({
      description: 'When one of its browsers was last seen. Null while no browser is signed in',
    }),
    disabled_at: Moment.nullable().meta({ description: 'When it was disabled. Null while it is enabled' }),
  })
  .meta({ id: 'Account' })

const username = z.string().max(100).meta({
  description: 'Lower-case letters and digits, with single . _ or - between them',
  example: 'alice',
  maxLength: 39,
})
const name = plainText(100).meta({ description: 'Display name; may be empty', example: 'Alice Doe' })
const email = z
  .string()
  .max(300)
  .meta({ maxLength: 254 })
  .nullable()
  .meta({ description: 'Null for none', example: 'alice@example.com' })
const admin = z.boolean().meta({ description: 'Whether it is a site administrator' })
const password = z.string().max(maxPasswordBytes).meta({
  description: 'If it is missing, a password is generated and returned',
  example: 'correct horse battery staple',
})

const AccountDraft = z
  .strictObject({
    username,
    name: name.optional(),
    email: email.optional(),
    admin: admin.optional(),
    password: password.optional(),
  })
  .meta({ id: 'AccountDraft' })

const NewAccount = Account.extend({
  password: z.string().nullable().meta({
    description: 'The generated password, which is returned once. Null for a given one',
    example: 'k7Qw2ZpLx9RtB4nVc8MdYs1Ge',
  }),
}).meta({ id: 'NewAccount' })

/** The member of a request that ends everything of an account, not only its sessions. */
export const endEverythingMember = z.boolean().meta({
  description:
    'True also revokes its tokens and applications, and the deploy tokens and invitations that it made, for good',
})

const AccountUpdate = z
  .strictObject({
    username,
    name,
    email,
    admin,
    disabled: z.boolean().meta({ description: 'True ends its sessions and stops its tokens' }),
    end_everything: endEverythingMember.meta({
      description:
        'Only with `disabled`: true also revokes its tokens and applications, and the deploy tokens and invitations that it made, for good',
    }),
  })
  .partial()
  .meta({ id: 'AccountUpdate', description: 'Missing members keep their values' })

const AccountsQuery = PageQuery.extend({
  search: z.string().max(254).optional().meta({
    description: 'Only accounts whose username, name or email contains this text',
    example: 'alice',
  }),
  state: z.enum(accountStates).optional().meta({
    description: 'Only accounts in this state. The first two leave out disabled accounts',
    example: 'without-second-factor',
  }),
})

/** The URL of an account. */
export const AccountPath = z.object({
  username: z.string().meta({ description: 'Username of the account', example: 'alice' }),
})

const DeletionQuery = z.object({
  groups_to: z.string().max(100).optional().meta({
    description: 'Username of the account that becomes admin of groups whose only admin is deleted',
    example: 'bob',
  }),
  leave_groups: z.literal('true').optional().meta({
    description: 'Leave these groups to the site administrators',
    example: 'true',
  }),
})

/** Accounts, for site administrators: `/api/accounts`. They do the same as `/admin/accounts` and `svc account`. */
export async function accountEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const url = '/accounts/:username'
  const mayRead = guardAdministrator('readSite', context)
  const mayManage = guardAdministrator('manageAccounts', context)

  app.get(
    '/accounts',
    endpoint(mayRead, {
      operationId: 'listAccounts',
      tag: 'Accounts',
      summary: 'List the accounts by username',
      querystring: AccountsQuery,
      response: { 200: z.array(Account) },
    }),
    async (request, reply) => {
      return readPage(
        { request, reply, config },
        (part) =>
          listAccounts(db, part, {
            search: request.query.search?.replaceAll('\0', ''),
            state: request.query.state,
          }),
        (account) => account.username,
        describeAccount,
      )
    },
  )

  app.post(
    '/accounts',
    endpoint(mayManage, {
      operationId: 'createAccount',
      tag: 'Accounts',
      summary: 'Create an account',
      body: AccountDraft,
      response: { 201: NewAccount },
    }),
    async (request, reply) => {
      const person = mayManage.granted(request)
      const { username, name = '', email = null, admin = false, password: given } = request.body
      if (admin) requireOnSite(person, 'changeAdministrator')
      const problem = given === undefined ? null : findPasswordProblem(given, username)
      if (problem !== null) throw invalidArgument(`password: ${problem}`)
      const password = given ?? makePassword()
      const draft = { username, displayName: name, email, isAdmin: admin, password }
      await keepingRules(() => createAccount(db, person.by, draft))
      const made = describeAccount(await accountOfPath(context, username))
      return reply.code(201).send({ ...made, password: given === undefined ? password : null })
    },
  )

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'getAccount',
      tag: 'Accounts',
      summary: 'Get an account',
      params: AccountPath,
      response: { 200: Account },
    }),
    async (request) => describeAccount(await accountOfPath(context, request.params.username)),
  )

  app.patch(
    url,
    endpoint(mayManage, {
      operationId: 'updateAccount',
      tag: 'Accounts',
      summary: 'Change, disable or enable an account',
      description:
        'Disabling ends its sessions and stops all its tokens at once. When it is enabled, its tokens work again, unless `end_everything` revoked them. The role `admin`, and the email of a site administrator, change only in the browser and by command. A new email counts as not verified. No other account can have a former username for 90 days. This applies to the last ten of an account.',
      params: AccountPath,
      body: AccountUpdate,
      response: { 200: Account },
    }),
    async (request) => {
      const person = mayManage.granted(request)
      const account = await accountOfPath(context, request.params.username)
      const { name, disabled, email, username, admin, end_everything = false } = request.body
      if (end_everything && disabled !== true) {
        throw invalidArgument('end_everything: is only for disabling: send disabled: true too')
      }
      if (admin !== undefined || disabled !== undefined) refuseOwn(person, account)
      if (admin !== undefined && admin !== account.isAdmin) requireOnSite(person, 'changeAdministrator')
      if (email !== undefined && email !== account.email) refuseAdministrator(person, account)
      const changes = {
        ...(username !== undefined && { username }),
        ...(name !== undefined && { displayName: name }),
        // An unchanged email stays verified.
        ...(email !== undefined && email !== account.email && { email }),
        ...(disabled !== undefined && { isDisabled: disabled }),
        endsEverything: end_everything,
      }
      await keepingRules(() => updateAccount(db, person.by, account.id, changes))
      // By the id: another request may have renamed the account.
      const changed = await findAccountDetailsById(db, account.id)
      if (!changed) throw notFound('account not found')
      return describeAccount(changed)
    },
  )

  app.delete(
    url,
    endpoint(mayManage, {
      operationId: 'deleteAccount',
      tag: 'Accounts',
      summary: 'Permanently delete an account',
      description:
        'Packages and events stay. The username is free after 90 days. If the account is the only admin of groups, pass one of the two parameters.',
      params: AccountPath,
      querystring: DeletionQuery,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const person = mayManage.granted(request)
      const account = await accountOfPath(context, request.params.username)
      refuseOwn(person, account)
      const { groups_to: heir = null, leave_groups } = request.query
      const chosen = await chooseHeir(db, account.username, { heir, isLeft: leave_groups === 'true' })
      if (typeof chosen === 'string') throw invalidArgument(chosen)
      const { outcome, groups } = await deleteAccount(db, person.by, account, chosen.orphanedGroups)
      if (outcome === 'refused') {
        throw conflict(
          `the account is the only admin of ${groups.join(', ')}: pass groups_to or leave_groups=true`,
        )
      }
      return reply.code(204).send()
    },
  )
}

/** Finds the account of a URL. Throws 404 when there is none. */
export async function accountOfPath({ db }: ApiContext, username: string): Promise<AccountDetails> {
  const account = await findAccountDetails(db, username)
  if (!account) throw notFound('account not found')
  return account
}

/** Administrators cannot do this to their own account, as in the browser: they could lock themselves out. */
export function refuseOwn(person: PersonGrant, account: AccountDetails): void {
  if (account.id !== person.accountId) return
  throw conflict('you cannot do this to your own account: ask another administrator')
}

/**
 * Whoever sets the password, the second factor or the email of a site administrator can become that administrator. So no
 * token does it.
 */
export function refuseAdministrator(person: PersonGrant, account: AccountDetails): void {
  if (account.isAdmin) requireOnSite(person, 'changeAdministrator')
}

function describeAccount(account: AccountDetails): z.input<typeof Account> {
  return {
    id: Number(account.id),
    username: account.username,
    name: account.displayName,
    email: account.email,
    email_verified_at: account.emailVerifiedAt?.toISOString() ?? null,
    admin: account.isAdmin,
    groups: account.groups,
    sessions: account.sessions,
    tokens: account.tokens,
    created_at: account.createdAt.toISOString(),
    last_seen_at: account.lastSeenAt?.toISOString() ?? null,
    disabled_at: account.disabledAt?.toISOString() ?? null,
  }
}

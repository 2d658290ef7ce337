import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { createAccount, resetPassword } from '../../../accounts/account-lifecycle.ts'
import {
  type AccountCounts,
  type AccountDetails,
  type AccountState,
  accountStates,
  countAccounts,
  listAccounts,
} from '../../../accounts/accounts.ts'
import { type FactorSummary, findFactors } from '../../../accounts/second-factor/factors.ts'
import { unlinkAccount } from '../../../accounts/single-sign-on/enter.ts'
import { type Identity, listIdentities } from '../../../accounts/single-sign-on/identities.ts'
import { pageOf } from '../../../domain/paging.ts'
import { makePassword } from '../../../domain/secrets.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { readSessionsAndTokens, type SessionsAndTokens } from './account-sessions.ts'
import { type AdminContext, accountOfPage, endEverythingChoice, goOn, orProblem } from './administrator.ts'

const accountsPerPage = 50

const AccountsQuery = z.object({ q: text, state: z.enum(accountStates).optional(), after: text })
const checkbox = z.literal('yes').optional()
const NewAccountForm = z.object({
  username: text,
  display_name: text,
  email: text,
  admin: checkbox,
})
const UnlinkForm = z.object({ issuer: text })
const PasswordForm = z.object({ end_everything: checkbox })

const accountsPage = page<{
  accounts: AccountDetails[]
  counts: AccountCounts
  search: string
  /** Null for the accounts in all states. */
  state: AccountState | null
  /** Whether this is not the first page of the list. */
  isContinued: boolean
  /** The cursor of the next page: a username. Null on the last page. */
  next: string | null
}>('admin/accounts')
const newAccountPage = page<{ form: z.output<typeof NewAccountForm>; problem: string | null }>(
  'admin/new-account',
)
const accountPage = page<{
  about: AccountDetails
  factors: FactorSummary
  identities: Identity[]
  access: SessionsAndTokens
  /** The key of the administrator's own session. */
  currentKey: string
  isOneself: boolean
}>('admin/account')
const passwordPage = page<{
  username: string
  password: string
  isNew: boolean
  hasEndedEverything: boolean
}>('admin/password')

const emptyForm = { username: '', display_name: '', email: '', admin: undefined }

/** No username is "-", so this is not the page of an account. */
const newAccountUrl = '/admin/accounts/-/new'

interface Route {
  Params: { username: string }
}

/**
 * `/admin/accounts` lists and finds accounts, `/admin/accounts/-/new` creates one. `/admin/accounts/<username>` shows an
 * account and its actions.
 */
export async function adminAccountRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { db, byOf, sessionOf } = context

  app.get('/admin/accounts', async (request, reply) => {
    const { q, state = null, after } = readQuery(AccountsQuery, request)
    const search = q.trim().slice(0, 254)
    const { rows: accounts, next } = await pageOf(
      (part) => listAccounts(db, part, { search, state }),
      { after, limit: accountsPerPage },
      ({ username }) => username,
    )
    const counts = await countAccounts(db)
    const isContinued = after !== ''
    return accountsPage(reply, sessionOf(request), { accounts, counts, search, state, isContinued, next })
  })

  app.get(newAccountUrl, (request, reply) =>
    newAccountPage(reply, sessionOf(request), { form: emptyForm, problem: null }),
  )

  // The URL of the list takes the form too: programs post there.
  for (const url of ['/admin/accounts', newAccountUrl]) {
    app.post(url, async (request, reply) => {
      const session = sessionOf(request)
      const form = readForm(NewAccountForm, request)
      const password = makePassword()
      const made = await orProblem(async () => ({
        id: await createAccount(db, byOf(request), {
          username: form.username,
          displayName: form.display_name,
          email: form.email || null,
          isAdmin: form.admin === 'yes',
          password,
        }),
      }))
      if (typeof made === 'string') return newAccountPage(reply.code(400), session, { form, problem: made })
      const { username } = form
      return passwordPage(reply, session, { username, password, isNew: true, hasEndedEverything: false })
    })
  }

  app.get<Route>('/admin/accounts/:username', async (request, reply) => {
    const session = sessionOf(request)
    const about = await accountOfPage(context, request.params.username)
    return accountPage(reply, session, {
      about,
      factors: await findFactors(db, about.id),
      identities: await listIdentities(db, about.id),
      access: await readSessionsAndTokens(db, about.id),
      currentKey: session.idHash.toString('hex'),
      isOneself: about.id === session.account.id,
    })
  })

  app.get<Route>('/admin/accounts/:username/identities', async (request, reply) => {
    const { id, username } = await accountOfPage(context, request.params.username)
    const { issuer } = readQuery(UnlinkForm, request)
    const identity = (await listIdentities(db, id)).find((one) => one.issuer === issuer)
    if (!identity) throw pageNotFound()
    const url = `/admin/accounts/${username}`
    return confirmationPage(reply, sessionOf(request), {
      title: `Unlink ${identity.provider} from ${username}?`,
      explanation: 'The person can no longer sign in with it. Memberships that it gave end.',
      action: `${url}/identities`,
      fields: { issuer },
      button: 'Unlink',
      ask: null,
      back: url,
    })
  })

  app.post<Route>('/admin/accounts/:username/identities', async (request, reply) => {
    const account = await accountOfPage(context, request.params.username)
    const { issuer } = readForm(UnlinkForm, request)
    // An administrator may remove the only way to sign in, because a reset link can replace it.
    const outcome = await unlinkAccount(db, byOf(request), account, issuer, null)
    if (outcome === 'unknown') throw new PageError(409, 'The account is no longer linked with this provider.')
    const { username } = account
    return goOn(
      context,
      reply,
      `/admin/accounts/${username}`,
      `${username} is no longer linked with the provider.`,
    )
  })

  app.get<Route>('/admin/accounts/:username/password', async (request, reply) => {
    const { username } = await accountOfPage(context, request.params.username)
    const url = `/admin/accounts/${username}`
    return confirmationPage(reply, sessionOf(request), {
      title: `Set a new password: ${username}?`,
      explanation:
        'The old password stops working, and all sessions of the account end. Tokens keep working, unless you end everything.',
      action: `${url}/password`,
      fields: {},
      button: 'Set a new password',
      ask: null,
      choice: endEverythingChoice,
      back: url,
    })
  })

  app.post<Route>('/admin/accounts/:username/password', async (request, reply) => {
    const { id, username } = await accountOfPage(context, request.params.username)
    const password = makePassword()
    const session = sessionOf(request)
    const { end_everything } = readForm(PasswordForm, request)
    const hasEndedEverything = end_everything === 'yes'
    await resetPassword(db, byOf(request), id, password, hasEndedEverything)
    return passwordPage(reply, session, { username, password, isNew: false, hasEndedEverything })
  })
}

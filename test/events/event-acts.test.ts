import { describe, expect, it } from 'vitest'
import { invite } from '../../src/accounts/invite.ts'
import { operator } from '../../src/domain/principal.ts'
import { type ListedEvent, listEvents } from '../../src/events/event-list.ts'
import { buildApp } from '../../src/web/server/app.ts'
import { openLog } from '../../src/web/server/log.ts'
import {
  aDeployToken,
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
  signIn,
  signInByForm,
} from '../support/actors.ts'
import { anAdministrator, postFile } from '../support/admin-actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, submitConsent } from '../support/browse.ts'
import { lastEventId } from '../support/event-rows.ts'
import { aPersonWithTotp, codeOf, halfSignIn } from '../support/factor-actors.ts'
import { anApplication, anAuthorization } from '../support/oauth-actors.ts'
import { anAuthorizedApplication, noteEveryExchange, pass } from '../support/token-client.ts'
import { listDeployTokenIds, listPersonalTokenIds } from '../support/token-rows.ts'

const t = useApp()

/** The username of the actor. Null when nobody was signed in. */
type By = { username: string } | null

/** Each act sends one or a few requests, and returns the actor. */
const acts: [action: string, details: Record<string, unknown>, act: () => Promise<By>][] = [
  [
    'sign-in',
    { method: 'password' },
    async () => {
      const account = await anAccount(t.db)
      await signInByForm(t.app, account)
      return account
    },
  ],
  [
    'sign-in',
    { method: 'password', second_factor: 'totp' },
    async () => {
      const person = await aPersonWithTotp(t)
      await (await halfSignIn(t.app, person)).send({ code: codeOf(person.secret) })
      return person
    },
  ],
  [
    'sign-in',
    { method: 'password', second_factor: 'recovery-code' },
    async () => {
      const person = await aPersonWithTotp(t)
      await (await halfSignIn(t.app, person)).send({ recovery_code: person.recoveryCodes[0] ?? '' })
      return person
    },
  ],
  [
    'recovery-code-used',
    {},
    async () => {
      const person = await aPersonWithTotp(t)
      await (await halfSignIn(t.app, person)).send({ recovery_code: person.recoveryCodes[0] ?? '' })
      return person
    },
  ],
  [
    'sign-in-failed',
    {},
    async () => {
      await tryPassword((await anAccount(t.db)).username, 'a wrong password')
      return null
    },
  ],
  [
    'sign-in-locked',
    {},
    async () => {
      const { username } = await anAccount(t.db)
      for (let n = 0; n < 11; n += 1) await tryPassword(username, 'a wrong password')
      return null
    },
  ],
  ['sign-out', {}, () => bySignedIn((send) => send('/logout'))],
  ['second-factor-added', { kind: 'totp' }, () => aPersonWithTotp(t)],
  ['recovery-codes-created', {}, () => aPersonWithTotp(t)],
  [
    'second-factor-failed',
    { kind: 'totp' },
    async () => {
      const person = await aPersonWithTotp(t)
      await (await halfSignIn(t.app, person)).send({ code: '000000' })
      return person
    },
  ],
  [
    'second-factor-removed',
    { kind: 'totp' },
    async () => {
      const person = await aPersonWithTotp(t)
      const page = await open(t, '/settings/second-factor', person.cookie)
      const form = { csrf_token: csrfTokenIn(page), current_password: password, code: codeOf(person.secret) }
      await post(t.app, '/settings/second-factor/totp/remove', person.cookie, form)
      return person
    },
  ],
  ['password-changed', {}, () => bySignedIn(changePassword)],
  ['session-ended', {}, () => bySignedIn(changePassword)],
  [
    'email-changed',
    { from: null },
    () =>
      bySignedIn((send, { username }) =>
        send('/settings/account/sign-in', {
          username,
          email: `${username}@example.com`,
          current_password: password,
        }),
      ),
  ],
  [
    'account-created',
    {},
    async () => {
      await acceptInvitation()
      return null
    },
  ],
  ['sign-in', { method: 'invitation' }, acceptInvitation],
  [
    'application-changed',
    { changed: ['exact_redirect', 'name'] },
    async () => {
      const { account, cookie, csrf_token } = await anAdministrator(t)
      const application = await anApplication(t.db)
      await postFile(
        t,
        `/admin/applications/${application.clientId}/edit`,
        cookie,
        {
          csrf_token,
          name: 'Other',
          description: application.description ?? '',
          website: application.website,
          redirect_uri: application.redirectUri,
          exact_redirect: 'yes',
          scope: application.scopes,
          resource_scope: application.resourceScope,
        },
        null,
      )
      return account
    },
  ],
  ['account-disabled', {}, () => byAdministrator('disable')],
  ['account-enabled', {}, () => byAdministrator('disable', 'enable')],
  [
    'account-deleted',
    {},
    async () => {
      await bySignedIn((send, { username }) =>
        send('/settings/account/delete', { username, current_password: password }),
      )
      return { username: 'deleted account' }
    },
  ],
  [
    'token-created',
    { scopes: ['registry-package:r'] },
    () =>
      bySignedIn((send) =>
        send('/settings/tokens', {
          name: 'Build server',
          lifetime_in_days: '30',
          scope: ['registry-package:r'],
          resource_scope: 'all',
        }),
      ),
  ],
  [
    'token-first-used',
    {},
    async () => {
      const account = await anAccount(t.db)
      const token = await aPersonalToken(t.db, account, { scopes: ['account-profile:r'] })
      // The uses are written when the process stops.
      const app = await buildApp({ config: t.config, db: t.db }, openLog('silent'))
      await app.inject({ url: '/api/user', headers: { authorization: `Bearer ${token}` } })
      await app.close()
      return account
    },
  ],
  [
    'token-revoked',
    {},
    () =>
      bySignedIn(async (send, account) => {
        await aPersonalToken(t.db, account)
        const [id = ''] = await listPersonalTokenIds(t.db, account)
        return send('/settings/tokens/revoke', { id })
      }),
  ],
  [
    'deploy-token-revoked',
    {},
    () =>
      bySignedIn(async (send, account) => {
        const { group } = await aRepository(t.db)
        await aGroupMember(t.db, account, group, 'admin')
        await aDeployToken(t.db, group)
        const [id = ''] = await listDeployTokenIds(t.db, group)
        return send(`/${group.name}/-/deploy-tokens/revoke`, { id })
      }),
  ],
  [
    'token-created',
    { scopes: ['account-profile:r', 'account-email:r', 'registry-package:rw'] },
    async () => {
      const { account, tokens } = await anAuthorizedApplication(t)
      await tokens()
      await noteEveryExchange(t)
      return account
    },
  ],
  [
    'code-replayed',
    {},
    async () => {
      const { newCode, exchange } = await anAuthorizedApplication(t)
      const code = await newCode()
      await exchange(code)
      await pass(t.db, 60)
      await exchange(code)
      return null
    },
  ],
  [
    'refresh-token-reused',
    {},
    async () => {
      const { tokens, refresh } = await anAuthorizedApplication(t)
      const { refresh_token } = await tokens()
      await refresh(refresh_token)
      await pass(t.db, 600)
      await refresh(refresh_token)
      return null
    },
  ],
  ['consent-given', { resource_scope: 'all' }, () => consent(['registry-package:rw'])],
  [
    'consent-narrowed',
    {
      from: { scopes: ['registry-package:rw'], resource_scope: 'all' },
      to: { scopes: ['registry-package:r'], resource_scope: 'all' },
    },
    () => consent(['registry-package:rw'], ['registry-package:r']),
  ],
  [
    'token-revoked',
    {},
    async () => {
      const { tokens, revoke } = await anAuthorizedApplication(t)
      await revoke((await tokens()).access_token)
      return null
    },
  ],
  [
    'authorization-withdrawn',
    {},
    async () => {
      const { tokens, revoke } = await anAuthorizedApplication(t)
      await revoke((await tokens()).refresh_token)
      return null
    },
  ],
  [
    'authorization-withdrawn',
    {},
    () =>
      bySignedIn(async (send) => {
        await send('/settings/account/revoke-all')
      }, anAuthorizationOf),
  ],
  [
    'authorization-withdrawn',
    {},
    async () => {
      const account = await anAccount(t.db)
      const { id } = await anAuthorization(t.db, account, await anApplication(t.db), {
        scopes: ['account-profile:r'],
      })
      const cookie = await signIn(t.app, account)
      const page = await open(t, '/settings/authorizations', cookie)
      const form = { csrf_token: csrfTokenIn(page), authorization: id }
      await post(t.app, '/settings/authorizations/withdraw', cookie, form)
      return account
    },
  ],
  [
    'authorization-withdrawn',
    {},
    async () => {
      const { application } = await anAuthorizedApplication(t)
      return review({ act: 'suspend' }, application)
    },
  ],
  [
    'grant-ended',
    { kind: 'access' },
    async () => {
      const account = await anAccount(t.db)
      const application = await anApplication(t.db)
      const cookie = await signIn(t.app, account)
      for (const _ of [1, 2]) {
        const asked = await open(t, authorizeLink(application, { prompt: 'consent' }), cookie)
        await submitConsent(t, asked, cookie, 'approve')
      }
      const page = await open(t, '/settings/authorizations', cookie)
      const [, grant = ''] = /end\?grant=(\d+)/.exec(page.body) ?? []
      await post(t.app, '/settings/authorizations/end', cookie, { csrf_token: csrfTokenIn(page), grant })
      return account
    },
  ],
  ['application-approved', { from: 'pending' }, () => review({ act: 'approve' }, 'pending')],
  ['application-suspended', { from: 'approved' }, () => review({ act: 'suspend', reason: 'leaks' })],
  ['application-secret-rotated', {}, () => review({ overlap_seconds: '0' }, 'approved', '/secret')],
]

type Send = (url: string, fields?: Record<string, string | string[]>) => Promise<unknown>
type Account = Awaited<ReturnType<typeof anAccount>>

/** Somebody who has just signed in sends forms. */
async function bySignedIn(
  work: (send: Send, account: Account) => Promise<unknown>,
  prepare: (account: Account) => Promise<unknown> = async () => {},
): Promise<By> {
  const account = await anAccount(t.db)
  await prepare(account)
  const cookie = await signIn(t.app, account)
  const page = await open(t, '/settings/account', cookie)
  await work(
    (url, fields = {}) => post(t.app, url, cookie, { csrf_token: csrfTokenIn(page), ...fields }),
    account,
  )
  return account
}

async function acceptInvitation(): Promise<By> {
  const username = aName('invited')
  const { id: groupId } = await aGroup(t.db)
  const { url } = await invite(t.db, t.config, operator, {
    email: null,
    target: { groupId, role: 'developer' },
  })
  const page = await open(t, '/login')
  await post(t.app, '/invitations/account', cookiesOf(page), {
    csrf_token: csrfTokenIn(page),
    token: url?.split('token=')[1] ?? '',
    username,
    new_password: 'a new and longer password',
    repeated_password: 'a new and longer password',
  })
  return { username }
}

function changePassword(send: Send): Promise<unknown> {
  return send('/settings/account/password', {
    current_password: password,
    new_password: 'a new and longer password',
    repeated_password: 'a new and longer password',
  })
}

async function anAuthorizationOf({ id }: Account): Promise<void> {
  const application = await anApplication(t.db)
  await anAuthorization(t.db, { id }, application, { scopes: ['account-profile:r'] })
}

async function byAdministrator(...steps: string[]): Promise<By> {
  const { account, cookie, csrf_token } = await anAdministrator(t)
  const { username } = await anAccount(t.db)
  for (const act of steps) await post(t.app, `/admin/accounts/${username}`, cookie, { csrf_token, act })
  return account
}

async function review(
  fields: Record<string, string>,
  which: 'pending' | 'approved' | { clientId: string } = 'approved',
  page = '',
): Promise<By> {
  const { account, cookie, csrf_token } = await anAdministrator(t)
  const { clientId } = typeof which === 'string' ? await anApplication(t.db, { status: which }) : which
  await post(t.app, `/admin/applications/${clientId}${page}`, cookie, { csrf_token, ...fields })
  return account
}

async function consent(...scopes: string[][]): Promise<By> {
  const account = await anAccount(t.db)
  const application = await anApplication(t.db, { scopes: ['registry-package:rw'] })
  const cookie = await signIn(t.app, account)
  for (const some of scopes) {
    const link = authorizeLink(application, { scope: some.join(' '), prompt: 'consent' })
    await submitConsent(t, await open(t, link, cookie), cookie, 'approve')
  }
  return account
}

async function tryPassword(username: string, sent: string): Promise<void> {
  const form = await t.app.inject('/login')
  await post(t.app, '/login', cookiesOf(form), { csrf_token: csrfTokenIn(form), username, password: sent })
}

describe('each act writes its event, with actor, client IP, user agent and request id', () => {
  it.each(acts)('%s %j', async (action, details, act) => {
    const last = await lastEventId(t.db)
    const by = await act()
    const events = await listEvents(t.db, { actions: [action] }, { after: null, limit: 100 })
    const [event] = events.filter(({ id }) => BigInt(id) > last)
    expect(event).toMatchObject({
      actor: by?.username ?? null,
      ip: '127.0.0.1',
      userAgent: 'lightMyRequest',
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
      details,
    } satisfies Partial<Record<keyof ListedEvent, unknown>>)
  })
})

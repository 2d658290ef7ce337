import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { changeAccount } from '../../../src/accounts/accounts.ts'
import { isPassword } from '../../../src/accounts/passwords.ts'
import { transaction } from '../../../src/database/database.ts'
import { operator } from '../../../src/domain/principal.ts'
import { listEvents } from '../../../src/events/event-list.ts'
import { deleteRepository } from '../../../src/groups/group-lifecycle.ts'
import { findRepositoryByPath } from '../../../src/groups/repositories.ts'
import { listUsernames, setAdministrator, storedAccount } from '../../support/account-rows.ts'
import {
  aGroup,
  aGroupMember,
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  signIn,
} from '../../support/actors.ts'
import { callApi, type Method } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { aPersonWithTotp, enrol } from '../../support/factor-actors.ts'
import { membersOf, storedGroup } from '../../support/group-rows.ts'
import { cancelWaiting, lockRows, openTransaction, untilWaiting } from '../../support/locks.ts'
import { anApplication } from '../../support/oauth-actors.ts'
import { dropRows } from '../../support/rows.ts'
import { aStoredFactor } from '../../support/session-rows.ts'
import { anAuthorizedApplication } from '../../support/token-client.ts'

const migrationsDir = mkdtempSync(join(tmpdir(), 'svc-test-migrations-'))
const t = useApp({ MIGRATIONS_DIR: migrationsDir })
const scopes = ['group-manage:rw', 'group-resource:rw', 'group-delete:rw', 'account-profile:rw']

/** A site administrator with an admin token, or another account with a personal access token. */
async function aCaller({
  isAdmin = true,
  ...about
}: Partial<Parameters<typeof aPersonalToken>[2]> & { isAdmin?: boolean } = {}) {
  const account = await anAccount(t.db, { isAdmin })
  const token = await aPersonalToken(t.db, account, { scopes, isAdmin, ...about })
  const call = (method: Method, url: string, body?: object) => callApi(t, token, method, `/api${url}`, body)
  return { account, token, call }
}

async function lastEvent(username: string) {
  const { id: accountId } = (await storedAccount(t.db, { username })) ?? expect.fail()
  const events = await listEvents(t.db, { subjectId: accountId }, { after: null, limit: 10 })
  // The first use of a token is written some seconds later, so it may come between.
  const event = events.find(({ action }) => action !== 'token-first-used')
  return event && { action: event.action, actor: event.actor, via: event.via }
}

interface Operation {
  security: Record<string, string[]>[]
  requestBody?: object
}

/**
 * The endpoints that accept only personal access tokens: those for administrators, and those for one's own account. Those
 * of a group or repository are tested with all acts.
 */
async function endpointsForPeople() {
  const { paths } = (await t.app.inject('/api/openapi.json')).json() as {
    paths: Record<string, Record<string, Operation>>
  }
  const ofPeople = Object.entries(paths).filter(
    ([path]) => !/^\/api\/(repositories|groups\/{group}\/)/.test(path),
  )
  return ofPeople.flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, { security }]) => security.length === 1 && 'personalToken' in (security[0] ?? {}))
      .map(([method, operation]) => ({ method: method.toUpperCase() as Method, path, operation })),
  )
}

describe('GET /api/accounts', () => {
  it('lists the accounts in a state', async () => {
    const { account: admin, call } = await aCaller()
    const [safe, unsafe, disabled] = [await anAccount(t.db), await anAccount(t.db), await anAccount(t.db)]
    await aStoredFactor(t.db, safe)
    await call('PATCH', `/accounts/${disabled.username}`, { disabled: true })
    const listed = async (state: string) => {
      const found = (await call('GET', `/accounts?state=${state}&limit=100`)).json<{ username: string }[]>()
      return [admin, safe, unsafe, disabled].filter(({ username }) =>
        found.some((account) => account.username === username),
      )
    }
    expect(await listed('without-second-factor')).toEqual([admin, unsafe])
    expect(await listed('administrator')).toEqual([admin])
    expect(await listed('disabled')).toEqual([disabled])
    expect((await call('GET', '/accounts?state=happy')).statusCode).toBe(400)
  })
})

describe('endpoints for people', () => {
  it('refuse applications and limited tokens; those of the administration accept site administrators only', async () => {
    const found = await endpointsForPeople()
    expect(found.length).toBeGreaterThan(25)
    const other = await anAccount(t.db)
    const application = await anAuthorizedApplication(t, { scopes })
    await setAdministrator(t.db, application.account, true)
    const { access_token } = await application.tokens()
    const admin = await anAccount(t.db, { isAdmin: true })
    const repository = await aRepository(t.db)
    const limited = { resourceScope: 'specified', repositoryIds: [repository.id] } as const
    const tokens = {
      'an application of a site administrator': access_token,
      'a limited token of a site administrator': await aPersonalToken(t.db, admin, { scopes, ...limited }),
      'an ordinary account': await aPersonalToken(t.db, await anAccount(t.db), { scopes }),
    }
    for (const { method, path } of found) {
      const url = path.replace('{username}', other.username).replace(/\{\w+\}/g, 'x')
      for (const [who, token] of Object.entries(tokens)) {
        const isOwn = path.startsWith('/api/user/') || path === '/api/groups'
        if (isOwn && who === 'an ordinary account') continue
        const { statusCode } = await callApi(t, token, method, url, method === 'GET' ? undefined : {})
        expect([who, method, path, statusCode]).toEqual([who, method, path, 403])
      }
      const lacking = await aPersonalToken(t.db, admin, { scopes: ['registry-package:rw'] })
      const response = await callApi(t, lacking, method, url, method === 'GET' ? undefined : {})
      expect([method, path, response.json().errmsg]).toEqual([method, path, expect.stringContaining('scope')])
    }
    expect(await storedAccount(t.db, other)).toBeDefined()
  })

  it.each([
    ['an unknown member', { username: 'x', usrname: 'y' }, 400],
    ['no member', {}, 400],
    ['a username that is none', { username: 'Not Good' }, 400],
    ['a username with a NUL', { username: 'a\0b' }, 400],
    ['an email that is none', { username: 'good', email: 'nobody' }, 400],
    ['an email with a NUL', { username: 'good', email: 'a\0@example.com' }, 400],
    ['a short password', { username: 'good', password: 'short' }, 400],
    ['the username as the password', { username: 'good-good-good', password: 'good-good-good' }, 400],
    ['another type', { username: 'good', admin: 'yes' }, 400],
    ['a huge name', { username: 'good', name: 'x'.repeat(20_000) }, 400],
  ])('makes no account with %s', async (_what, body, status) => {
    const { call } = await aCaller()
    const before = await listUsernames(t.db)
    const response = await call('POST', '/accounts', body)
    expect([response.statusCode, response.json()]).toEqual([
      status,
      { errcode: 3, errmsg: expect.any(String) },
    ])
    expect(await listUsernames(t.db)).toEqual(before)
  })
})

describe('a change of an account', () => {
  it('keeps a username that another request has just changed', async () => {
    const { call } = await aCaller()
    const account = await anAccount(t.db)
    const renamed = aName('renamed')
    let change: ReturnType<typeof call> | undefined
    await transaction(t.db, async (tx) => {
      await changeAccount(tx, operator, account.id, { username: renamed })
      change = call('PATCH', `/accounts/${account.username}`, { name: 'Ann' })
      await untilWaiting(t.db)
    })
    expect((await change)?.json()).toMatchObject({ username: renamed, name: 'Ann' })
    expect((await call('GET', `/accounts/${renamed}`)).json()).toMatchObject({ name: 'Ann' })
  })

  it('is made completely or not at all', async () => {
    const { call } = await aCaller()
    const account = await anAccount(t.db, { displayName: 'Ann' })
    await signIn(t.app, account)
    const holder = await openTransaction(t.db)
    await lockRows(holder.tx, 'session', { accountId: account.id })
    const change = call('PATCH', `/accounts/${account.username}`, { name: 'Anna', disabled: true })
    await untilWaiting(t.db)
    await cancelWaiting(t.db)
    expect((await change).statusCode).toBe(503)
    await holder.rollback()
    expect((await call('GET', `/accounts/${account.username}`)).json()).toMatchObject({
      name: 'Ann',
      disabled_at: null,
    })
  })
})

describe('/api/accounts', () => {
  it('makes, finds, changes, disables, enables and deletes an account, as the administrator', async () => {
    const { account: admin, call } = await aCaller()
    const username = aName('new')
    const made = await call('POST', '/accounts', { username, email: `${username}@example.com`, name: 'New' })
    expect(made.statusCode).toBe(201)
    const { password, ...about } = made.json()
    expect(about).toMatchObject({ username, name: 'New', admin: false, email_verified_at: null })
    const stored = (await storedAccount(t.db, { username })) ?? expect.fail()
    expect(await isPassword(password, stored.passwordHash ?? '')).toBe(true)
    expect(await lastEvent(username)).toEqual({
      action: 'account-created',
      actor: admin.username,
      via: 'api',
    })
    expect((await call('POST', '/accounts', { username })).statusCode).toBe(409)
    expect((await call('GET', `/accounts?search=${username.toUpperCase()}`)).json()).toEqual([about])

    const renamed = aName('renamed')
    const changed = await call('PATCH', `/accounts/${username}`, {
      username: renamed,
      email: null,
      admin: false,
    })
    expect(changed.json()).toMatchObject({ id: about.id, username: renamed, email: null, admin: false })
    const promotion = await call('PATCH', `/accounts/${renamed}`, { admin: true })
    expect([promotion.statusCode, promotion.json().errmsg]).toEqual([403, expect.stringContaining('roles')])
    expect((await call('GET', `/accounts/${renamed}`)).json()).toMatchObject({ admin: false })
    expect((await call('GET', `/accounts/${username}`)).statusCode).toBe(404)

    const token = await aPersonalToken(t.db, { id: about.id }, { scopes: ['account-profile:r'] })
    const works = async () => (await callApi(t, token, 'GET', '/api/user')).statusCode
    const disabled = await call('PATCH', `/accounts/${renamed}`, { disabled: true })
    expect([disabled.json().disabled_at === null, await works()]).toEqual([false, 401])
    expect(await lastEvent(renamed)).toEqual({
      action: 'account-disabled',
      actor: admin.username,
      via: 'api',
    })
    await call('PATCH', `/accounts/${renamed}`, { disabled: false })
    expect(await works()).toBe(200)

    const { group } = await aRepository(t.db)
    await aGroupMember(t.db, { id: about.id }, group, 'admin')
    const refused = await call('DELETE', `/accounts/${renamed}`)
    expect([refused.statusCode, refused.json().errmsg]).toEqual([409, expect.stringContaining(group.name)])
    expect((await call('DELETE', `/accounts/${renamed}?groups_to=nobody-at-all`)).statusCode).toBe(400)
    const deleted = await call('DELETE', `/accounts/${renamed}?groups_to=${admin.username}`)
    expect(deleted.statusCode).toBe(204)
    expect(await membersOf(t.db, group)).toMatchObject([{ accountId: admin.id }])
    expect((await call('POST', '/accounts', { username: renamed })).statusCode).toBe(409)
  })

  it('does not let administrators lock themselves out', async () => {
    const { account, call } = await aCaller()
    const url = `/accounts/${account.username}`
    expect((await call('PATCH', url, { disabled: true })).statusCode).toBe(409)
    expect((await call('PATCH', url, { admin: false })).statusCode).toBe(409)
    expect((await call('DELETE', url)).statusCode).toBe(409)
    expect((await call('DELETE', `${url}/factors`)).statusCode).toBe(409)
    expect((await call('GET', url)).json()).toMatchObject({ admin: true, disabled_at: null })
  })

  it('exports an account to a token with the scopes of everything that the export contains', async () => {
    const person = await anAccount(t.db, { email: `${aName('export')}@example.com` })
    const every = ['account-profile:r', 'account-email:r', 'group-resource:r', 'repo-basic-info:r']
    const ask = async (scopes: string[]) =>
      callApi(t, await aPersonalToken(t.db, person, { scopes }), 'GET', '/api/user/export')
    const exported = await ask(every)
    expect(exported.statusCode).toBe(200)
    expect(exported.json()).toMatchObject({ account: { username: person.username } })
    for (const missing of every) {
      const refused = await ask(every.filter((scope) => scope !== missing))
      expect([refused.statusCode, refused.json().errmsg]).toEqual([403, `the scope ${missing} is required`])
    }
  })

  it('shows the second factors of an account to itself and to administrators, who remove them', async () => {
    const { account: admin, call } = await aCaller()
    const person = await aPersonWithTotp(t)
    const own = await aPersonalToken(t.db, person, { scopes: ['account-profile:r'] })
    const seen = (await callApi(t, own, 'GET', '/api/user/factors')).json()
    expect(seen).toEqual({ authenticator_app_since: expect.any(String), passkeys: [], recovery_codes: 10 })
    expect((await call('GET', `/accounts/${person.username}/factors`)).json()).toEqual(seen)
    expect((await call('DELETE', `/accounts/${person.username}/factors`)).statusCode).toBe(204)
    expect(await lastEvent(person.username)).toMatchObject({ actor: admin.username, via: 'api' })
    expect((await callApi(t, own, 'GET', '/api/user/factors')).json()).toEqual({
      authenticator_app_since: null,
      passkeys: [],
      recovery_codes: 0,
    })
  })

  it('lists and ends sessions, of oneself and of others', async () => {
    const { account: admin, call } = await aCaller()
    const person = await anAccount(t.db)
    const cookies = [await signIn(t.app, person), await signIn(t.app, person), await signIn(t.app, person)]
    const open = async (cookie = '') =>
      (await t.app.inject({ url: '/settings/account', headers: { cookie } })).statusCode
    const own = await aPersonalToken(t.db, person, { scopes: ['account-profile:rw'] })
    const listed = (await callApi(t, own, 'GET', '/api/user/sessions?limit=2')).json()
    expect(listed).toHaveLength(2)
    const [{ session }] = listed
    expect((await callApi(t, own, 'DELETE', `/api/user/sessions/${session}`)).statusCode).toBe(204)
    expect((await callApi(t, own, 'DELETE', `/api/user/sessions/${session}`)).statusCode).toBe(404)
    const rest = (await call('GET', `/accounts/${person.username}/sessions`)).json()
    expect(rest).toHaveLength(2)
    // People can end only their own sessions.
    const [foreign] = (await call('GET', `/accounts/${admin.username}/sessions`)).json()
    expect(foreign).toBeUndefined()
    await call('DELETE', `/accounts/${person.username}/sessions/${rest[0].session}`)
    expect((await call('DELETE', `/accounts/${person.username}/sessions`)).statusCode).toBe(204)
    expect(await Promise.all(cookies.map(open))).toEqual([303, 303, 303])
    expect(await lastEvent(person.username)).toEqual({
      action: 'session-ended',
      actor: admin.username,
      via: 'api',
    })
  })

  it('sets passwords by the same rule as the pages, creates reset links, revokes all tokens, and exports', async () => {
    const { call } = await aCaller()
    const { id, username } = await anAccount(t.db)
    const url = `/accounts/${username}`
    const refused = await call('PUT', `${url}/password`, { password: 'password1234' })
    expect([refused.statusCode, refused.json().errmsg]).toEqual([400, expect.stringMatching(/^password: /)])
    const { password } = (await call('PUT', `${url}/password`)).json()
    const stored = (await storedAccount(t.db, { id })) ?? expect.fail()
    expect(await isPassword(password, stored.passwordHash ?? '')).toBe(true)
    const link = (await call('POST', `${url}/reset-link`)).json()
    expect((await t.app.inject(link.url.replace('http://svc.test', ''))).body).toContain(username)
    await aPersonalToken(t.db, { id })
    expect((await call('POST', `${url}/revoke-all`)).json()).toEqual({ tokens: 1, applications: 0 })
    expect((await call('GET', `${url}/export`)).json()).toMatchObject({ account: { username } })
    await call('PATCH', url, { disabled: true })
    expect((await call('POST', `${url}/reset-link`)).statusCode).toBe(409)
  })
})

describe('/api/invitations', () => {
  it('makes, lists and withdraws invitations of the whole site', async () => {
    const { account, call } = await aCaller()
    const made = await call('POST', '/invitations', {})
    expect(made.statusCode).toBe(201)
    const { id, url } = made.json()
    expect((await t.app.inject(url.replace('http://svc.test', ''))).statusCode).toBe(200)
    const [listed] = (await call('GET', '/invitations?limit=1')).json()
    expect(listed).toMatchObject({ id, group: null, role: null, invited_by: account.username })
    expect((await call('POST', '/invitations', { email: 'nobody' })).statusCode).toBe(400)
    expect((await call('DELETE', `/invitations/${id}`)).statusCode).toBe(204)
    expect((await call('DELETE', `/invitations/${id}`)).statusCode).toBe(404)
  })
})

describe('/api/groups', () => {
  it('makes no repository with the name of a deleted one, which can be restored', async () => {
    const { call } = await aCaller({ isAdmin: false })
    const group = aName('group')
    expect((await call('POST', '/groups', { name: group })).statusCode).toBe(201)
    const create = (name: string) => call('POST', `/groups/${group}/repositories`, { name })
    expect((await create('gone')).statusCode).toBe(201)
    const path = `${group}/gone`
    const gone = await findRepositoryByPath(t.db, path)
    await deleteRepository(t.db, operator, { id: gone?.id ?? '', path })
    const refused = await create('gone')
    expect([refused.statusCode, refused.json().errcode]).toEqual([409, 6])
  })

  it('makes groups and repositories, and requires a second factor of the members', async () => {
    const { account, call } = await aCaller({ isAdmin: false })
    const name = aName('made')
    const made = await call('POST', '/groups', { name })
    expect([made.statusCode, made.json()]).toEqual([
      201,
      { name, requires_second_factor: false, second_factor_from: null, created_at: expect.any(String) },
    ])
    expect((await call('POST', '/groups', { name })).statusCode).toBe(409)
    const former = await aGroup(t.db)
    await dropRows(t.db, 'repository_group', { id: former.id })
    const reserved = await call('POST', '/groups', { name: former.name })
    expect([reserved.statusCode, reserved.json().errmsg]).toEqual([
      409,
      'This name belonged to another group, and its old URLs may still be in use. Choose another name.',
    ])
    expect((await call('POST', '/groups', { name: 'Not Good' })).statusCode).toBe(400)
    const repository = await call('POST', `/groups/${name}/repositories`, {
      name: 'php',
      visibility: 'public',
    })
    expect([repository.statusCode, repository.json()]).toEqual([
      201,
      expect.objectContaining({ path: `${name}/php`, visibility: 'public', role: 'admin' }),
    ])
    expect((await call('POST', `/groups/${name}/repositories`, { name: 'php' })).statusCode).toBe(409)
    const reader = await aPersonalToken(t.db, account, { scopes: ['registry-manage:r'] })
    const events = await callApi(t, reader, 'GET', `/api/repositories/${name}/php/events`)
    expect(events.json()).toEqual([
      expect.objectContaining({
        action: 'create-repository',
        account: account.username,
        token: expect.objectContaining({ kind: 'personal' }),
        details: { path: `${name}/php`, visibility: 'public' },
      }),
      expect.objectContaining({
        action: 'create-group',
        account: account.username,
        details: { name, username: account.username, role: 'admin' },
      }),
    ])
    const ann = await anAccount(t.db)
    const member = `/groups/${name}/members/${ann.username}`
    expect((await call('PUT', member, { role: 'developer' })).json()).toMatchObject({ role: 'developer' })
    expect((await call('GET', `/groups/${name}/members`)).json()).toHaveLength(2)
    expect((await call('DELETE', member)).statusCode).toBe(204)
    expect((await call('DELETE', member)).statusCode).toBe(404)
    expect((await call('DELETE', `/groups/${name}/members/${account.username}`)).statusCode).toBe(409)
    const require = () => call('PATCH', `/groups/${name}`, { requires_second_factor: true })
    // The admin would lose the role.
    expect((await require()).statusCode).toBe(409)
    await enrol(t, account, await signIn(t.app, account))
    const rule = (body: object) => call('PATCH', `/groups/${name}`, body)
    const days = { second_factor_grace_days: 14 }
    for (const wrong of [days, { ...days, requires_second_factor: false }]) {
      expect((await rule(wrong)).statusCode).toBe(400)
    }
    const later = await rule({ ...days, requires_second_factor: true })
    expect(later.json()).toMatchObject({
      requires_second_factor: true,
      second_factor_from: expect.any(String),
    })
    // Who sends the setting again does not end the grace period.
    expect((await require()).json()).toEqual(later.json())
    const lacking = await call('GET', `/groups/${name}/members-without-second-factor`)
    expect([lacking.statusCode, lacking.json()]).toEqual([200, []])
    const now = await rule({ requires_second_factor: true, second_factor_grace_days: 0 })
    expect(now.json()).toMatchObject({ requires_second_factor: true, second_factor_from: null })
    const { id: groupId } = (await storedGroup(t.db, name)) ?? expect.fail()
    const changes = await eventsOf(t.db, { groupId }, ['action', 'actorId', 'tokenKind'])
    expect(changes.at(-1)).toEqual({ action: 'set-group', actorId: account.id, tokenKind: 'personal' })
    // Only site administrators rename and delete groups, as in the browser.
    expect((await call('PATCH', `/groups/${name}`, { name: aName('other') })).statusCode).toBe(403)
    expect((await call('DELETE', `/groups/${name}`)).statusCode).toBe(403)
    const site = await aCaller()
    expect((await site.call('DELETE', `/groups/${name}`)).statusCode).toBe(409)
    const renamed = aName('renamed')
    expect((await site.call('PATCH', `/groups/${name}`, { name: renamed })).json()).toMatchObject({
      name: renamed,
    })
    expect((await site.call('DELETE', `/groups/${renamed}?with_repositories=true`)).statusCode).toBe(204)
    expect((await site.call('GET', `/groups/${renamed}`)).statusCode).toBe(404)
  })

  it('is managed by its admins only', async () => {
    const { group } = await aRepository(t.db)
    const { account, call } = await aCaller({ isAdmin: false })
    const acts: [Method, string, object?][] = [
      ['GET', ''],
      ['PATCH', '', { requires_second_factor: true }],
      ['DELETE', ''],
      ['GET', '/members'],
      ['GET', '/members-without-second-factor'],
      ['PUT', `/members/${account.username}`, { role: 'admin' }],
      ['DELETE', `/members/${account.username}`],
      ['POST', '/repositories', { name: 'x' }],
    ]
    const statuses = async () => {
      const found = []
      for (const [method, below, body] of acts) {
        found.push((await call(method, `/groups/${group.name}${below}`, body)).statusCode)
      }
      return found
    }
    // Only site administrators delete groups: everybody else gets 403, whether the group exists or not.
    expect(await statuses()).toEqual([404, 404, 403, 404, 404, 404, 404, 404])
    expect((await call('DELETE', '/groups/nothing')).statusCode).toBe(403)
    await aGroupMember(t.db, account, group, 'developer')
    expect(await statuses()).toEqual(acts.map(() => 403))
  })
})

describe('/api/applications', () => {
  it('lists, shows, changes, reviews and deletes applications, by migrations, with a history', async () => {
    const { account, call } = await aCaller()
    const { clientId } = await anApplication(t.db, { status: 'pending' })
    const url = `/applications/${clientId}`
    const pending = (await call('GET', '/applications?state=pending')).json()
    expect(pending).toEqual([expect.objectContaining({ client_id: clientId })])
    expect((await call('GET', url)).json()).toMatchObject({ accounts: 0, last_used_at: null })
    expect((await call('POST', `${url}/decline`, {})).statusCode).toBe(400)
    const declined = await call('POST', `${url}/decline`, { reason: 'Not yet', migration: false })
    expect(declined.json()).toMatchObject({ status: 'declined', status_reason: 'Not yet', migration: null })
    const approved = await call('POST', `${url}/approve`)
    expect(approved.json()).toMatchObject({
      status: 'approved',
      migration: expect.stringMatching(/approve_\w+\.sql$/),
    })
    const changes = { name: 'Mirror 2', scopes: ['account-profile:r'], developer: account.username }
    expect((await call('PATCH', url, changes)).json()).toMatchObject({
      ...changes,
      reviewed_by: account.username,
      reviewed_at: expect.any(String),
    })
    expect((await call('PATCH', url, { developer: 'nobody-has-this' })).statusCode).toBe(400)
    expect((await call('PATCH', url, { redirect_uri: 'javascript:alert(1)' })).statusCode).toBe(400)
    expect((await call('PATCH', url, { scopes: ['root:rw'] })).statusCode).toBe(400)
    expect((await call('PATCH', url, {})).statusCode).toBe(400)
    expect((await call('PATCH', url, { public: true })).json()).toMatchObject({ public: true })
    expect((await call('POST', `${url}/secret`, {})).json().errmsg).toContain('is a public client')
    expect((await call('PATCH', url, { public: false })).json()).toMatchObject({ public: false })
    const rotated = await call('POST', `${url}/secret`, { overlap_seconds: 0 })
    expect(rotated.json()).toEqual({ client_secret: expect.stringMatching(/^svcs_/), overlap_seconds: 0 })
    const history = (await call('GET', `${url}/history?limit=2`)).json()
    expect(history).toEqual([
      expect.objectContaining({ action: 'application-secret-rotated', actor: account.username, via: 'api' }),
      expect.objectContaining({ action: 'application-changed', actor: account.username, via: 'api' }),
    ])
    expect((await call('DELETE', url)).statusCode).toBe(204)
    expect((await call('GET', url)).statusCode).toBe(404)
    expect((await call('GET', '/applications/..%2fx')).statusCode).toBe(404)
  })
})

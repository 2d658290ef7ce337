import { PassThrough } from 'node:stream'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  deleteAccount,
  disableAccount,
  enableAccount,
  resetPassword,
} from '../../src/accounts/account-lifecycle.ts'
import { changeAccount, findCredentials, renewHash } from '../../src/accounts/accounts.ts'
import { countRefusedSignIn } from '../../src/accounts/password-check.ts'
import { noteFailedFactor } from '../../src/accounts/second-factor/check-factor.ts'
import { logIdentityEventsJob } from '../../src/accounts/security-notices.ts'
import { readConfig } from '../../src/config.ts'
import { transaction } from '../../src/database/database.ts'
import { networkOf } from '../../src/domain/client-ip.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret, makeSecret } from '../../src/domain/secrets.ts'
import { deleteFormerCounts } from '../../src/events/counted-events.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { describeActor } from '../../src/events/event-words.ts'
import { sweepEventsJob } from '../../src/events/sweep-events.ts'
import { changeMember, type MemberChange } from '../../src/groups/membership.ts'
import { enqueue } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { rotateClientSecret, setApplicationStatus } from '../../src/oauth/applications.ts'
import { openLog } from '../../src/web/server/log.ts'
import { verifyEmail } from '../support/account-rows.ts'
import {
  aName,
  anAccount,
  aPersonalToken,
  aRepository,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
  signIn,
} from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import {
  ageCountedEvents,
  asEventSweep,
  changeEvents,
  dateEvents,
  holdHour,
  eventsOf as storedEvents,
} from '../support/event-rows.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { ageSupersededPairs, changeRegistration, setRedemptionAge } from '../support/oauth-rows.ts'
import { dropRows, truncateTable } from '../support/rows.ts'
import { useManyConnections } from '../support/statistics.ts'
import { anAuthorizedApplication } from '../support/token-client.ts'
import { listPersonalTokenIds } from '../support/token-rows.ts'

const agent = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'

describe('identity events', () => {
  const t = useApp({ EVENT_RETENTION_DAYS: '30', EVENT_IP_DAYS: '7' })
  beforeAll(() => holdHour(t.db))

  const eventsOf = async (accountId: string) =>
    (await listEvents(t.db, { subjectId: accountId }, { after: null, limit: 100 })).reverse()
  const actionsOf = async (accountId: string) => (await eventsOf(accountId)).map(({ action }) => action)

  /** Sends the sign-in form. */
  async function tryPassword(username: string, sent: string) {
    const form = await t.app.inject('/login')
    const fields = { csrf_token: csrfTokenIn(form), username, password: sent }
    return post(t.app, '/login', cookiesOf(form), fields, { 'user-agent': agent })
  }

  it('are written for a failed sign-in, a sign-in and a sign-out, with client IP, browser and request', async () => {
    const { id, username } = await anAccount(t.db)
    await tryPassword(username, 'a wrong password')
    const signedIn = await tryPassword(username, password)
    const cookie = cookiesOf(signedIn)
    const page = await t.app.inject({ url: '/settings/account', headers: { cookie } })
    await post(t.app, '/logout', cookie, { csrf_token: csrfTokenIn(page) })

    const events = await eventsOf(id)
    expect(events.map(({ action }) => action)).toEqual([
      'account-created',
      'sign-in-failed',
      'sign-in',
      'sign-out',
    ])
    expect(events[1]).toMatchObject({
      username,
      actor: null,
      via: 'browser',
      ip: '127.0.0.1',
      userAgent: agent,
    })
    expect(events[2]).toMatchObject({ username, actor: username, ip: '127.0.0.1', userAgent: agent })
    expect(events[2]?.requestId).toMatch(/^[0-9a-f-]{36}$/)
    expect(t.log()).toContain(`"reqId":"${events[2]?.requestId}"`)
  })

  it('do not store an unknown name, which may be a mistyped password', async () => {
    const name = aName('unknown')
    await tryPassword(name, 'a wrong password')
    const [latest] = await listEvents(t.db, {}, { after: null, limit: 1 })
    expect(latest).toMatchObject({ action: 'sign-in-failed', username: null, details: {} })
  })

  const countsOf = (events: Awaited<ReturnType<typeof eventsOf>>, counted: string) =>
    events.filter(({ action }) => action === counted).map(({ details }) => details)

  const failures = (events: Awaited<ReturnType<typeof eventsOf>>) =>
    events
      .filter(({ action }) => action === 'sign-in-failed')
      .map(({ ip, details }) => ({ ip: ip ?? '', details }))

  it('count the failed sign-ins of an account from a network in an hour in one event', async () => {
    const [ann, ben] = [await anAccount(t.db), await anAccount(t.db)]
    const fail = (login: string, ip: string) =>
      countRefusedSignIn(t.db, { ...operator, via: 'browser', ip }, 'sign-in-failed', login, networkOf(ip))
    await Promise.all(Array.from({ length: 12 }, () => fail(ann.username, '192.0.2.1')))
    await fail(ann.username, '192.0.2.2')
    await Promise.all(['2001:db8::1', '2001:db8::2'].map((ip) => fail(ann.username, ip)))
    await fail(ben.username, '192.0.2.1')
    const counted = (attempts: number) => ({ attempts, last_at: expect.any(String) })
    const [first, second, third] = failures(await eventsOf(ann.id)).sort((one, other) =>
      one.ip.localeCompare(other.ip),
    )
    expect(first).toEqual({ ip: '192.0.2.1', details: counted(12) })
    expect(second).toEqual({ ip: '192.0.2.2', details: {} })
    expect(third).toEqual({ ip: expect.stringMatching(/^2001:db8::[12]$/), details: counted(2) })
    expect(failures(await eventsOf(ben.id))).toEqual([{ ip: '192.0.2.1', details: {} }])

    // The next hour begins.
    await ageCountedEvents(t.db, 3)
    await fail(ann.username, '192.0.2.1')
    expect(failures(await eventsOf(ann.id))).toHaveLength(4)
    expect(await deleteFormerCounts(t.db, 3)).toBe(3)
    expect(await deleteFormerCounts(t.db, 100)).toBeGreaterThanOrEqual(1)
    expect(failures(await eventsOf(ann.id))).toHaveLength(4)
    await fail(ann.username, '192.0.2.1')
    expect(failures(await eventsOf(ann.id)).at(-1)).toEqual({ ip: '192.0.2.1', details: counted(2) })
  })

  it('count the unknown names of a network together', async () => {
    const ip = '198.51.100.7'
    for (let n = 0; n < 5; n += 1) {
      const by = { ...operator, ip }
      await countRefusedSignIn(t.db, by, 'sign-in-failed', aName('unknown'), networkOf(ip))
    }
    const events = await listEvents(t.db, { ip }, { after: null, limit: 10 })
    expect(events.map(({ username, details }) => [username, details['attempts']])).toEqual([[null, 5]])
  })

  it('are of the account that the sign-in would check, when several entered the email', async () => {
    const email = `${aName('shared')}@example.com`
    const [disabled, first, second] = [
      await anAccount(t.db, { email }),
      await anAccount(t.db, { email }),
      await anAccount(t.db, { email }),
    ]
    await disableAccount(t.db, operator, disabled.id)
    const tryWrong = () => tryPassword(email, 'a wrong password')
    const failed = async () =>
      Promise.all([disabled, first, second].map(async ({ id }) => failures(await eventsOf(id)).length))
    await tryWrong()
    expect(await failed()).toEqual([0, 1, 0])
    await verifyEmail(t.db, second)
    await tryWrong()
    expect(await failed()).toEqual([0, 1, 1])
  })

  it('count the attempts that a lock rejects in one event, also at the same moment', async () => {
    const { id, username } = await anAccount(t.db)
    for (let n = 0; n < 10; n += 1) await tryPassword(username, 'a wrong password')
    const refused = await Promise.all(Array.from({ length: 12 }, () => tryPassword(username, password)))
    expect(refused.map(({ statusCode }) => statusCode)).toEqual(Array(12).fill(429))
    expect(countsOf(await eventsOf(id), 'sign-in-locked')).toMatchObject([{ attempts: 12 }])
  })

  it('count the wrong second factors of an account, by kind and network', async () => {
    const [ann, ben] = [await anAccount(t.db), await anAccount(t.db)]
    const fail = (accountId: string, ip: string, kind: 'totp' | 'recovery-code' | 'passkey') =>
      noteFailedFactor(t.db, { ...operator, accountId, via: 'browser', ip }, accountId, kind)
    await Promise.all(Array.from({ length: 20 }, () => fail(ann.id, '192.0.2.1', 'totp')))
    await fail(ann.id, '192.0.2.1', 'passkey')
    await Promise.all(['2001:db8::1', '2001:db8::2'].map((ip) => fail(ann.id, ip, 'recovery-code')))
    await fail(ben.id, '192.0.2.1', 'totp')
    const last_at = expect.any(String)
    const ofAnn = countsOf(await eventsOf(ann.id), 'second-factor-failed')
    expect(ofAnn).toHaveLength(3)
    expect(ofAnn).toEqual(
      expect.arrayContaining([
        { kind: 'totp', attempts: 20, last_at },
        { kind: 'passkey' },
        { kind: 'recovery-code', attempts: 2, last_at },
      ]),
    )
    const [ofBen] = (await eventsOf(ben.id)).slice(-1)
    expect(ofBen).toMatchObject({
      action: 'second-factor-failed',
      username: ben.username,
      actor: ben.username,
      via: 'browser',
      ip: '192.0.2.1',
      details: { kind: 'totp' },
    })
  })

  it('are written for a changed password and the sessions that it ends, but not for a hash with other parameters', async () => {
    const account = await anAccount(t.db)
    await signIn(t.app, account)
    const cookie = await signIn(t.app, account)
    const page = await t.app.inject({ url: '/settings/account', headers: { cookie } })
    await post(t.app, '/settings/account/password', cookie, {
      csrf_token: csrfTokenIn(page),
      current_password: password,
      new_password: 'a new and longer password',
      repeated_password: 'a new and longer password',
    })
    const credentials = await findCredentials(t.db, account.username)
    if (!credentials) throw new Error('no credentials')
    expect(await renewHash(t.db, credentials, 'the hash with other parameters')).toBe(true)
    expect(await actionsOf(account.id)).toEqual([
      'account-created',
      'sign-in',
      'sign-in',
      'password-changed',
      'session-ended',
      'session-ended',
    ])
  })

  it('are written for every act of an administrator, and stay after the account is deleted', async () => {
    const { id, username } = await anAccount(t.db)
    await disableAccount(t.db, operator, id)
    await enableAccount(t.db, operator, id)
    await resetPassword(t.db, operator, id, 'a new and longer password')
    const email = `${username}@example.com`
    await changeAccount(t.db, operator, id, { email, isAdmin: true })
    await changeAccount(t.db, operator, id, { isAdmin: false, username: `${username}-x` })
    await deleteAccount(t.db, operator, { id, username }, 'refuse')
    const events = await eventsOf(id)
    expect(events.map(({ action, via }) => [action, via])).toEqual([
      ['account-created', 'command'],
      ['account-disabled', 'command'],
      ['account-enabled', 'command'],
      ['password-changed', 'command'],
      ['email-changed', 'command'],
      ['admin-granted', 'command'],
      ['account-renamed', 'command'],
      ['admin-removed', 'command'],
      ['account-deleted', 'command'],
    ])
    expect(events[0]).toMatchObject({ username: 'deleted account', details: {} })
    expect(events[4]?.details).toEqual({ from_was_verified: false })
  })

  it('lose the names and email addresses of an account when it is deleted, also its former ones', async () => {
    const [person, other] = [await anAccount(t.db), await anAccount(t.db)]
    const repository = await aRepository(t.db)
    const { id, username } = person
    const setRole = (account: { id: string; username: string }, place: MemberChange['place']) =>
      changeMember(t.db, operator, { place, account, role: 'guest' })
    const former = { id, username }
    await setRole(former, { repositoryId: repository.id })
    await changeAccount(t.db, operator, id, {
      username: `${username}-later`,
      email: `${username}@example.com`,
    })
    // Another account has the former name now.
    await dropRows(t.db, 'reserved_username')
    await changeAccount(t.db, operator, other.id, { username })
    await setRole({ id: other.id, username }, { repositoryId: repository.id })
    await setRole({ id, username: `${username}-later` }, { groupId: repository.group.id })
    await deleteAccount(t.db, operator, { id, username: `${username}-later` }, 'refuse')
    const columns = ['id', 'details'] as const
    const inRepository = await storedEvents(t.db, { repositoryId: repository.id }, columns)
    const inGroup = await storedEvents(t.db, { groupId: repository.group.id }, columns)
    const named = [...inRepository, ...inGroup].filter(({ details }) => 'username' in details)
    const inOrder = named.toSorted((a, b) => Number(a.id) - Number(b.id))
    expect(inOrder.map(({ details }) => details['username'])).toEqual([
      'deleted account',
      username,
      'deleted account',
    ])
    expect(JSON.stringify(await eventsOf(id))).not.toContain(username)
    expect(JSON.stringify(await eventsOf(other.id))).toContain(username)
  })

  it('are rolled back with the change that they describe', async () => {
    const { id } = await anAccount(t.db)
    const failing = transaction(t.db, async (tx) => {
      await changeAccount(tx, operator, id, { isAdmin: true })
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await actionsOf(id)).toEqual(['account-created'])
  })

  it('are written for tokens, and the actor of one transaction is not that of the next', async () => {
    const { id, username } = await anAccount(t.db)
    await aPersonalToken(t.db, { id }, { name: 'laptop' })
    const cookie = await signIn(t.app, { username })
    const page = await t.app.inject({ url: '/settings/tokens', headers: { cookie } })
    const [tokenId = ''] = await listPersonalTokenIds(t.db, { id })
    const form = { csrf_token: csrfTokenIn(page), id: tokenId }
    await post(t.app, '/settings/tokens/revoke', cookie, form)
    await useManyConnections(t.db, 20)
    await aPersonalToken(t.db, { id }, { name: 'desk' })
    const events = await eventsOf(id)
    expect(events.map(({ action, actor, details }) => [action, actor, details['name']])).toEqual([
      ['account-created', null, undefined],
      ['token-created', null, 'laptop'],
      ['sign-in', username, undefined],
      ['token-revoked', username, 'laptop'],
      ['token-created', null, 'desk'],
    ])
  })

  it('are written for a replayed code, a reused refresh token and the end of an authorization', async () => {
    const client = await anAuthorizedApplication(t)
    const { clientId } = client.application
    const code = await client.newCode()
    const pair = (await client.exchange(code)).json<{ refresh_token: string }>()
    await client.refresh(pair.refresh_token)
    await setRedemptionAge(t.db, '1 minute')
    await ageSupersededPairs(t.db)
    for (let n = 0; n < 2; n += 1) {
      await client.exchange(code)
      await client.refresh(pair.refresh_token)
    }
    const { refresh_token } = (await client.exchange(await client.newCode())).json<{
      refresh_token: string
    }>()
    await client.revoke(refresh_token)
    const events = await listEvents(t.db, {}, { after: null, limit: 100 })
    const own = events.filter((event) => event.clientId === clientId).reverse()
    const about = own.filter(({ action }) => !action.startsWith('application-'))
    // For events of the token functions, the actor is the application.
    expect(about.map(({ action, via, ip }) => [action, via, ip])).toEqual([
      ['code-replayed', 'application', '127.0.0.1'],
      ['refresh-token-reused', 'application', '127.0.0.1'],
      ['authorization-withdrawn', 'application', '127.0.0.1'],
    ])
    expect(about.map(describeActor)).toEqual(about.map(({ application }) => `the application ${application}`))
    expect(about.every(({ username }) => username !== null)).toBe(true)
  })

  it('are not written for a code that is sent twice within three seconds, but for a later use', async () => {
    const client = await anAuthorizedApplication(t)
    const { clientId } = client.application
    const alarms = async () => {
      const events = await listEvents(t.db, {}, { after: null, limit: 100 })
      return events.filter((event) => event.clientId === clientId && event.action === 'code-replayed').length
    }
    const code = await client.newCode()
    await client.exchange(code)
    // A slow machine may take longer than three seconds between the two.
    await setRedemptionAge(t.db, '-1 minute')
    expect((await client.exchange(code)).json()).toMatchObject({ error: 'invalid_grant' })
    expect(await alarms()).toBe(0)
    await setRedemptionAge(t.db, '4 seconds')
    await client.exchange(code)
    expect(await alarms()).toBe(1)
  })

  it('are written for an application, also when plain SQL changes it', async () => {
    const { id, clientId } = await anApplication(t.db, { status: 'pending' })
    await transaction(t.db, (tx) => setApplicationStatus(tx, clientId, 'approved'), operator)
    await changeRegistration(t.db, { id }, { name: 'Other', exactRedirect: true })
    await rotateClientSecret(t.db, clientId, hashSecret(makeSecret('client')), 0)
    const events = await listEvents(t.db, {}, { after: null, limit: 4 })
    expect(events.reverse().map(({ action, via, details }) => [action, via, details])).toEqual([
      ['application-registered', null, { name: 'Package Mirror', status: 'pending' }],
      ['application-approved', 'command', { from: 'pending' }],
      [
        'application-changed',
        null,
        {
          changed: ['exact_redirect', 'name'],
          exact_redirect: true,
          name: 'Other',
          from: { exact_redirect: false, name: 'Package Mirror' },
        },
      ],
      ['application-secret-rotated', null, {}],
    ])
  })

  it('are append-only: only the sweep erases client IPs, and removes old events', async () => {
    const { id, username } = await anAccount(t.db)
    await tryPassword(username, 'a wrong password')
    await expect(dropRows(t.db, 'event')).rejects.toThrow('append-only')
    await expect(truncateTable(t.db, 'event')).rejects.toThrow('append-only')
    await expect(changeEvents(t.db, {}, { action: 'sign-in' })).rejects.toThrow('append-only')
    await tryPassword(username, 'a wrong password')
    const failed = { accountId: id, action: 'sign-in-failed' }
    for (const change of [
      { details: { attempts: 1 } },
      { details: { attempts: 3 }, happenedAt: new Date() },
      { details: {} },
      { details: { attempts: 3, kind: 'totp' } },
    ]) {
      await expect(asEventSweep(t.db, (tx) => changeEvents(tx, failed, change))).rejects.toThrow(
        'append-only',
      )
    }
    const created = { accountId: id, action: 'account-created' }
    await expect(
      asEventSweep(t.db, (tx) => changeEvents(tx, created, { details: { attempts: 9 } })),
    ).rejects.toThrow('append-only')
    const age = (days: number) => dateEvents(t.db, {}, new Date(Date.now() - days * 86_400_000))
    const sweep = async () => {
      await enqueue(t.db, sweepEventsJob, undefined)
      await runDueJobs({ config: t.config, db: t.db }, [sweepEventsJob], openLog('silent', new PassThrough()))
      return (await eventsOf(id)).map(({ ip }) => ip)
    }
    expect(await sweep()).toEqual([null, '127.0.0.1'])
    await age(8)
    expect(await sweep()).toEqual([null, null])
    await age(31)
    expect(await sweep()).toEqual([])
  })

  it('are written to the log once, each with a stable name', async () => {
    const lines: string[] = []
    const stream = new PassThrough()
    stream.on('data', (chunk: Buffer) => lines.push(...chunk.toString().trim().split('\n')))
    const write = async () => {
      await enqueue(t.db, logIdentityEventsJob, undefined)
      await runDueJobs({ config: readConfig({}), db: t.db }, [logIdentityEventsJob], openLog('info', stream))
    }
    await write()
    lines.length = 0
    const { username } = await anAccount(t.db)
    await tryPassword(username, 'a wrong password')
    await write()
    await write()
    const events = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    expect(events.map(({ event, account }) => [event, account])).toEqual([
      ['identity.account-created', username],
      ['identity.sign-in-failed', username],
    ])
    expect(events[1]).toMatchObject({ level: 30, via: 'browser', ip: '127.0.0.1', user_agent: agent })
    expect(lines.join('')).not.toContain('a wrong password')

    // A failed sign-in that counts more attempts is logged again, with their number.
    lines.length = 0
    await tryPassword(username, 'a wrong password')
    await tryPassword(username, 'a wrong password')
    await write()
    await write()
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { event: 'identity.sign-in-failed', account: username, details: { attempts: 3 } },
    ])
  })
})

describe('/settings/security', () => {
  const t = useApp()
  beforeAll(() => holdHour(t.db))

  it('shows how often a sign-in failed, and until when', async () => {
    const ann = await anAccount(t.db)
    const form = await t.app.inject('/login')
    for (let n = 0; n < 3; n += 1) {
      const fields = { csrf_token: csrfTokenIn(form), username: ann.username, password: 'wrong' }
      await post(t.app, '/login', cookiesOf(form), fields)
    }
    const cookie = await signIn(t.app, ann)
    const page = await t.app.inject({ url: '/settings/security', headers: { cookie } })
    expect(page.body.match(/Sign-in failed: wrong password/g)).toHaveLength(1)
    expect(page.body).toMatch(
      /Sign-in failed: wrong password<\/strong> <span class="muted">3 times until \d+ \w+ \d{4}, \d\d:\d\d UTC/,
    )
  })

  it('shows a person their own events, in parts', async () => {
    const ann = await anAccount(t.db)
    const ben = await anAccount(t.db)
    for (let n = 0; n < 60; n += 1) await aPersonalToken(t.db, ann, { name: `<b>${n}` })
    await aPersonalToken(t.db, ben, { name: 'of ben' })
    const cookie = await signIn(t.app, ann)
    const page = await t.app.inject({ url: '/settings/security', headers: { cookie } })
    expect(page.statusCode).toBe(200)
    expect(page.body).toContain('Signed in')
    expect(page.body).toContain('Token created</strong> <span class="muted">&lt;b&gt;59')
    expect(page.body).not.toContain('of ben')
    expect(page.body).not.toContain('&lt;b&gt;1,')
    const [, next] = /href="(\/settings\/security\?after=[\d-]+)"/.exec(page.body) ?? []
    const second = await t.app.inject({ url: next ?? '', headers: { cookie } })
    expect(second.body).toContain('&lt;b&gt;1,')
    expect(second.body).not.toContain('?after=')
    expect((await t.app.inject('/settings/security')).statusCode).toBe(303)
  })
})

describe('/admin/events', () => {
  const t = useApp()

  async function anAdmin() {
    return signIn(t.app, await anAccount(t.db, { isAdmin: true }))
  }

  it('is for site administrators only', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    expect((await t.app.inject({ url: '/admin/events', headers: { cookie } })).statusCode).toBe(404)
    expect((await t.app.inject('/admin/events')).statusCode).toBe(404)
  })

  it('filters by who acted, by application and by time, and keeps the filter on the next page', async () => {
    const admin = await anAccount(t.db, { isAdmin: true })
    const cookie = await signIn(t.app, admin)
    const ann = await anAccount(t.db)
    const { id, clientId } = await anApplication(t.db)
    const read = async (query: string) => {
      const { body } = await t.app.inject({ url: `/admin/events?${query}&format=json`, headers: { cookie } })
      return body.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
    }
    await disableAccount(t.db, { ...operator, via: 'browser', accountId: admin.id }, ann.id)
    const acts = (events: { action: string }[]) => events.map(({ action }) => action)
    expect(acts(await read(`actor=${admin.username}&account=${ann.username}`))).toEqual(['account-disabled'])
    expect(acts(await read(`application=${clientId}`))).toEqual(['application-registered'])
    await dateEvents(
      t.db,
      { applicationId: id, action: 'application-registered' },
      new Date('2001-02-03T04:05Z'),
    )
    expect(acts(await read('until=2001-02-03T04:06'))).toEqual(['application-registered'])
    expect(await read('until=2001-02-03T04:05')).toEqual([])
    expect(await read('since=2001-02-03T04:05&until=2001-02-04')).toHaveLength(1)
    expect(acts(await read(`since=2001-02-04&application=${clientId}`))).toEqual([])
    expect(await read('since=2100-01-01')).toEqual([])
    for (let n = 0; n < 60; n += 1) await aPersonalToken(t.db, ann)
    const page = await t.app.inject({
      url: `/admin/events?account=${ann.username}&since=2001-02-03`,
      headers: { cookie },
    })
    expect(page.body).toMatch(new RegExp(`\\?account=${ann.username}&amp;since=2001-02-03&amp;after=\\d+`))
    expect(page.body).toContain('aria-current="page">Events')
    for (const [query, problem] of [
      ['since=2001-02-31', 'not a valid time'],
      ['until=yesterday', 'not a valid time'],
      ['application=nothing1', 'no application'],
      ['actor=nobody', 'no account'],
    ] as const) {
      const refused = await t.app.inject({ url: `/admin/events?${query}`, headers: { cookie } })
      expect([query, refused.statusCode]).toEqual([query, 400])
      expect(refused.body).toContain(problem)
    }
  })

  it('filters by account, action and client IP', async () => {
    const cookie = await anAdmin()
    const ann = await anAccount(t.db)
    const ben = await anAccount(t.db)
    await aPersonalToken(t.db, ann, { name: 'token-of-ann' })
    await aPersonalToken(t.db, ben, { name: 'token-of-ben' })
    const open = async (query: string) => t.app.inject({ url: `/admin/events?${query}`, headers: { cookie } })
    const all = await open('')
    expect(all.body).toContain('token-of-ann')
    expect(all.body).toContain('token-of-ben')
    const own = await open(`account=${ann.username}`)
    expect(own.body).toContain('token-of-ann')
    expect(own.body).not.toContain('token-of-ben')
    const created = await open('action=account-created')
    expect(created.body).not.toContain('token-of-ann')
    expect((await open('ip=127.0.0.1')).body).toContain('Signed in</strong>')
    expect((await open('ip=192.0.2.1')).body).toContain('No event matches the filter.')
    for (const [query, problem] of [
      ['ip=nonsense', 'a valid IP address'],
      ['ip=fe80::1%25eth0', 'a valid IP address'],
      ['action=nonsense', 'no such action'],
      ['account=nobody', 'no account'],
    ] as const) {
      const refused = await open(query)
      expect(refused.statusCode).toBe(400)
      expect(refused.body).toContain(problem)
    }
  })

  it('exports CSV, which no spreadsheet runs, and JSON lines', async () => {
    const cookie = await anAdmin()
    const ann = await anAccount(t.db)
    const form = await t.app.inject('/login')
    await post(
      t.app,
      '/login',
      cookiesOf(form),
      { csrf_token: csrfTokenIn(form), username: ann.username, password: 'wrong' },
      { 'user-agent': '=HYPERLINK("x"), b' },
    )
    const url = `/admin/events?account=${ann.username}&action=sign-in-failed`
    const csv = await t.app.inject({ url: `${url}&format=csv`, headers: { cookie } })
    expect(csv.headers['content-type']).toBe('text/csv; charset=utf-8')
    expect(csv.headers['content-disposition']).toMatch(/"events-site-20\d\d-\d\d-\d\d\.csv"$/)
    const [head, row] = csv.body.split('\r\n')
    expect(head).toMatch(/^id,happened_at,action,account,/)
    expect(row).toContain(`sign-in-failed,${ann.username},,,,browser,127.0.0.1,"'=HYPERLINK(""x""), b",`)
    const json = await t.app.inject({ url: `${url}&format=json`, headers: { cookie } })
    expect(
      json.body
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toMatchObject([{ action: 'sign-in-failed', account: ann.username, ip: '127.0.0.1' }])
    expect((await t.app.inject({ url: `${url}&format=xml`, headers: { cookie } })).statusCode).toBe(400)
  })
})

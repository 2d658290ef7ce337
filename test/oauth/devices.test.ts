import type { LightMyRequestResponse } from 'fastify'
import { describe, expect, it } from 'vitest'
import { disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { operator } from '../../src/domain/principal.ts'
import { changeApplicationStatus } from '../../src/oauth/application-changes.ts'
import { deleteExpiredDevices, makeUserCode, readUserCode } from '../../src/oauth/device-requests.ts'
import { aGroupMember, aMember, anAccount, aRepository, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { hiddenFields, open, submitConsent } from '../support/browse.ts'
import { ageDevices } from '../support/device-rows.ts'
import { requireSecondFactor } from '../support/group-rows.ts'
import { lockTables, openTransaction, untilWaiting } from '../support/locks.ts'
import { type ApplicationActor, anApplication, basicOf } from '../support/oauth-actors.ts'
import { changeRegistration, liveGrantsOf } from '../support/oauth-rows.ts'
import { countRows } from '../support/rows.ts'
import { ask, askAsPublic, postForm, works } from '../support/token-client.ts'

interface DeviceResponse {
  device_code: string
  user_code: string
}

describe('a device', () => {
  const t = useApp({ AUTH_URL: 'http://svc.test/auth' })
  const grant_type = 'urn:ietf:params:oauth:grant-type:device_code'

  const anApp = (differences: Parameters<typeof anApplication>[1] = {}) =>
    anApplication(t.db, { isPublic: true, isDevice: true, redirectUri: 'http://127.0.0.1/', ...differences })

  /** A device that has asked, and a person who has signed in. */
  async function aDevice(differences: Parameters<typeof anApplication>[1] = {}) {
    const application = await anApp(differences)
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const { device_code, user_code } = await begin(application)
    const poll = () => askAsPublic(t, application, 'token', { grant_type, device_code })
    const page = (code = user_code, visitor = cookie) =>
      open(t, `/device?user_code=${encodeURIComponent(code)}`, visitor)
    const decide = async (decision: string, fields: Record<string, string> = {}) =>
      submitConsent(t, await page(), cookie, decision, fields)
    return { application, account, cookie, device_code, user_code, poll, page, decide }
  }

  async function begin(
    application: ApplicationActor,
    form: Record<string, string> = {},
  ): Promise<DeviceResponse> {
    return (await askAsPublic(t, application, 'device', form)).json()
  }

  const errorOf = (response: LightMyRequestResponse) => [response.statusCode, response.json().error]

  it('gets two codes and the URLs for the person (OPENID 221)', async () => {
    const response = await askAsPublic(t, await anApp(), 'device', { scope: 'account-profile:r' })
    expect(response.statusCode).toBe(200)
    const body = response.json()
    expect(body).toEqual({
      device_code: expect.stringMatching(/^[\w-]{43}$/),
      user_code: expect.stringMatching(/^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/),
      verification_uri: 'http://svc.test/auth/device',
      verification_uri_complete: `http://svc.test/auth/device?user_code=${body.user_code}`,
      expires_in: 900,
      interval: 5,
    })
    const metadata = (await t.app.inject('/.well-known/oauth-authorization-server')).json()
    expect(metadata.device_authorization_endpoint).toBe('http://svc.test/auth/oauth2/device')
    expect(metadata.grant_types_supported).toContain(grant_type)
  })

  it('authenticates as for the other endpoints, and must be registered for devices (OPENID 221)', async () => {
    const confidential = await anApplication(t.db, { isDevice: true })
    expect(errorOf(await askAsPublic(t, confidential, 'device', {}))).toEqual([401, 'invalid_client'])
    expect((await ask(t, confidential, 'device', { scope: 'account-profile:r' })).statusCode).toBe(200)
    // RFC 8628 §3.1 requires no parameter of a client that authenticates by HTTP Basic.
    expect((await ask(t, confidential, 'device', {})).statusCode).toBe(200)
    expect((await ask(t, confidential, 'device', { resource: 'http://svc.test/api' })).statusCode).toBe(200)
    const authorization = basicOf(confidential.clientId, confidential.clientSecret)
    const nothing = await t.app.inject({
      method: 'POST',
      url: '/oauth2/device',
      headers: { authorization },
    })
    expect(errorOf(nothing)).toEqual([400, 'invalid_request'])
    expect(errorOf(await askAsPublic(t, await anApp({ isDevice: false }), 'device', {}))).toEqual([
      400,
      'unauthorized_client',
    ])
    const wide = { scope: 'group-delete:rw' }
    expect(errorOf(await askAsPublic(t, await anApp(), 'device', wide))).toEqual([400, 'invalid_scope'])
  })

  it('leads a browser that is not signed in to the sign-in, and then to the code (OPENID 222)', async () => {
    const { user_code } = await aDevice()
    const redirect = await open(t, `/device?user_code=${user_code}`)
    expect(redirect.statusCode).toBe(303)
    expect(redirect.headers.location).toMatch(/^\/login\?return=/)
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const form = await open(t, '/device', cookie)
    expect(form.body).toContain('name="user_code"')
    const csrf_token = /name="csrf_token" value="([^"]+)"/.exec(form.body)?.[1] ?? ''
    const typed = ` ${user_code.toLowerCase().replace('-', ' – ')}`
    const page = await post(t.app, '/device', cookie, { csrf_token, user_code: typed })
    expect(page.body).toContain(user_code)
    expect(page.body).toContain('value="approve"')
  })

  it('gets a pair for the resources that it asks for, whatever the poll names (OPENID 273)', async () => {
    const { application, cookie, account } = await aDevice()
    const repository = await aRepository(t.db)
    await aMember(t.db, account, repository, 'developer')
    const registry = `/${repository.path}/-/packages/`
    const { device_code, user_code } = await begin(application, { resource: t.config.baseUrl + registry })
    const page = await open(t, `/device?user_code=${user_code}`, cookie)
    expect(page.body).toContain(`The access works only at <strong>the registry of ${repository.path}<`)
    await submitConsent(t, page, cookie, 'approve')
    const poll = (form = {}) => askAsPublic(t, application, 'token', { grant_type, device_code, ...form })
    expect(errorOf(await poll({ resource: `${t.config.baseUrl}/api` }))).toEqual([400, 'invalid_target'])
    const { access_token } = (await poll()).json()
    const statusAt = async (url: string) =>
      (await t.app.inject({ url, headers: { authorization: `Bearer ${access_token}` } })).statusCode
    expect(await statusAt(`${registry}packages.json`)).toBe(200)
    expect(await statusAt('/api/user')).toBe(401)
  })

  it('gets invalid_target for a resource of nobody, and its page asks for none that the account may not see (OPENID 274)', async () => {
    const { application, cookie } = await aDevice()
    const unknown = await askAsPublic(t, application, 'device', { resource: 'https://other.test/' })
    expect(errorOf(unknown)).toEqual([400, 'invalid_target'])
    const { path } = await aRepository(t.db)
    const resource = `${t.config.baseUrl}/${path}/-/packages/`
    const { user_code } = await begin(application, { resource })
    const page = await open(t, `/device?user_code=${user_code}`, cookie)
    expect([page.statusCode, page.body.includes('value="approve"')]).toEqual([422, false])
    expect(page.body).toContain('a registry that does not exist, or that you may not see')
  })

  it('is confirmed with application, scopes, network and time, also from a link with the code (OPENID 223)', async () => {
    const { application, page } = await aDevice()
    await ageDevices(t.db, 12)
    const { body } = await page()
    expect(body).toContain(`Authorize ${application.name}?`)
    expect(body).toMatch(/network address 127\.0\.0\.1, and started 1\d seconds ago/)
    expect(body).toContain('See, install and publish packages')
    for (const decision of ['approve', 'deny']) expect(body).toContain(`name="decision" value="${decision}"`)
    await ageDevices(t.db, 170)
    expect((await page()).body).toContain('started 3 minutes ago')
  })

  it('gets what was asked and the chosen repositories, not more (OPENID 223)', async () => {
    const { application, account, cookie } = await aDevice({ resourceScope: 'specified' })
    const repository = await aRepository(t.db)
    await aMember(t.db, account, repository, 'developer')
    const { device_code, user_code } = await begin(application, { scope: 'registry-package:r' })
    const page = await open(t, `/device?user_code=${user_code}`, cookie)
    const none = await submitConsent(t, page, cookie, 'approve')
    expect([none.statusCode, none.body.includes(user_code)]).toEqual([422, true])
    const done = await submitConsent(t, page, cookie, 'approve', { repository: repository.path })
    expect([done.statusCode, done.headers.location]).toEqual([303, '/device/approved'])
    const pair = (await askAsPublic(t, application, 'token', { grant_type, device_code })).json()
    expect(pair.scope).toBe('registry-package:r')
    expect(await liveGrantsOf(t.db, account)).toEqual([
      { scopes: ['registry-package:r'], paths: [repository.path] },
    ])
    expect((await open(t, '/device/approved', cookie)).body).toContain('The device has access')
  })

  it('waits, and must slow down when it polls too fast (OPENID 224)', async () => {
    const { poll } = await aDevice()
    expect(errorOf(await poll())).toEqual([400, 'authorization_pending'])
    await ageDevices(t.db, 5)
    expect(errorOf(await poll())).toEqual([400, 'authorization_pending'])
    // The device polls at once, however slow the machine is.
    await ageDevices(t.db, -60)
    expect(errorOf(await poll())).toEqual([400, 'slow_down'])
    await ageDevices(t.db, 6)
    expect(errorOf(await poll())).toEqual([400, 'slow_down'])
    await ageDevices(t.db, 15)
    expect(errorOf(await poll())).toEqual([400, 'authorization_pending'])
  })

  it('is denied, expires, and is unknown (OPENID 224)', async () => {
    const denied = await aDevice()
    const answer = await denied.decide('deny')
    expect(answer.headers.location).toBe('/device/denied')
    expect((await open(t, '/device/denied')).body).toContain('The device gets no access')
    expect(errorOf(await denied.poll())).toEqual([400, 'access_denied'])
    const late = await aDevice()
    await ageDevices(t.db, 901)
    expect(errorOf(await late.poll())).toEqual([400, 'expired_token'])
    expect((await late.page()).body).toContain('No device waits with this code')
    const { application, device_code } = await aDevice()
    const unknown = { grant_type, device_code: 'x' }
    expect(errorOf(await askAsPublic(t, application, 'token', unknown))).toEqual([400, 'invalid_grant'])
    const others = { grant_type, device_code }
    expect(errorOf(await askAsPublic(t, await anApp(), 'token', others))).toEqual([400, 'invalid_grant'])
    expect(errorOf(await askAsPublic(t, application, 'token', { grant_type }))).toEqual([
      400,
      'invalid_request',
    ])
    await ageDevices(t.db, 86_400)
    expect(await deleteExpiredDevices(t.db, 100)).toBeGreaterThan(1)
    expect(errorOf(await late.poll())).toEqual([400, 'invalid_grant'])
  })

  it('gets one pair after the approval, whatever the race and however fast it polls (OPENID 225)', async () => {
    const { poll, decide } = await aDevice()
    expect(errorOf(await poll())).toEqual([400, 'authorization_pending'])
    await decide('approve')
    const polls = await Promise.all(Array.from({ length: 10 }, poll))
    const pairs = polls.filter(({ statusCode }) => statusCode === 200)
    expect(pairs).toHaveLength(1)
    expect(polls.filter((one) => one.statusCode === 400).map((one) => one.json().error)).toEqual(
      Array.from({ length: 9 }, () => 'invalid_grant'),
    )
    expect(errorOf(await poll())).toEqual([400, 'invalid_grant'])
    expect(await works(t, pairs[0]?.json().access_token)).toBe(true)
  })

  it('has one decision, whatever the race of two pages', async () => {
    const { page, cookie, account } = await aDevice()
    const pages = await Promise.all([page(), page(), page()])
    const decisions = await Promise.all(pages.map((one) => submitConsent(t, one, cookie, 'approve')))
    expect(decisions.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b)).toEqual([303, 400, 400])
    expect(await liveGrantsOf(t.db, account)).toHaveLength(1)
    const late = decisions.find(({ statusCode }) => statusCode === 400)
    expect(late?.body).toContain('A decision was already made on this request.')
  })

  it('gets its pair when a poll and another person come while the approval is being stored', async () => {
    const { page, cookie, poll } = await aDevice()
    const other = await signIn(t.app, await anAccount(t.db))
    const [mine, theirs] = [await page(), await page(undefined, other)]
    const { tx, commit } = await openTransaction(t.db)
    await lockTables(tx, 'authorization_code', 'exclusive')
    const approval = submitConsent(t, mine, cookie, 'approve')
    await untilWaiting(t.db)
    const decided = Promise.all([poll(), submitConsent(t, theirs, other, 'deny')])
    await untilWaiting(t.db, 3)
    await commit()
    expect((await approval).headers.location).toBe('/device/approved')
    const [polled, denial] = await decided
    expect(polled.statusCode).toBe(200)
    expect([denial.statusCode, denial.headers.location]).toEqual([400, undefined])
    expect(denial.body).toContain('A decision was already made on this request.')
  })

  it('cannot present its code as that of a browser', async () => {
    const { application, device_code: code, decide } = await aDevice()
    await decide('approve')
    const response = await askAsPublic(t, application, 'token', { grant_type: 'authorization_code', code })
    expect(errorOf(response)).toEqual([400, 'invalid_grant'])
  })

  it.each<[string, (device: Awaited<ReturnType<typeof aDevice>>) => Promise<unknown>]>([
    ['the account was disabled', ({ account }) => disableAccount(t.db, operator, account.id)],
    [
      'the application was suspended',
      ({ application }) =>
        changeApplicationStatus(t.db, t.config, operator, application.clientId, {
          verb: 'suspend',
          status: 'suspended',
          isMigration: false,
        }),
    ],
  ])('gets invalid_grant after the approval when %s (OPENID 226)', async (_what, change) => {
    const device = await aDevice()
    await device.decide('approve')
    await change(device)
    expect(errorOf(await device.poll())).toEqual([400, 'invalid_grant'])
  })

  it('gets invalid_grant after the approval when a group requires a second factor by now (OPENID 226)', async () => {
    const { account, decide, poll } = await aDevice()
    await decide('approve')
    const { group } = await aRepository(t.db)
    await aGroupMember(t.db, account, group, 'developer')
    await requireSecondFactor(t.db, group)
    expect(errorOf(await poll())).toEqual([400, 'invalid_grant'])
  })

  it('ends with the registration for devices: its code, its page and its polls (OPENID 226)', async () => {
    const approved = await aDevice()
    await approved.decide('approve')
    const { application, account, cookie, page, poll } = await aDevice()
    const opened = await page()
    for (const one of [application, approved.application])
      await changeRegistration(t.db, one, { isDevice: false })
    for (const decision of ['approve', 'deny']) {
      const refused = await submitConsent(t, opened, cookie, decision)
      expect(refused.statusCode).toBe(400)
      expect(refused.body).toContain('The application was changed in the meantime.')
    }
    expect(await liveGrantsOf(t.db, account)).toEqual([])
    expect((await page()).body).toContain('No device waits with this code')
    for (const one of [poll, approved.poll])
      expect(errorOf(await one())).toEqual([400, 'unauthorized_client'])
  })

  it('limits wrong codes of an account, by GET and POST, and a right one resets nothing (OPENID 227)', async () => {
    const { page, cookie, user_code } = await aDevice()
    const csrf_token = hiddenFields(await page()).csrf_token
    const guess = (n: number) =>
      n % 2 === 0
        ? page(makeUserCode())
        : post(t.app, '/device', cookie, { csrf_token, user_code: n === 1 ? 'no code' : makeUserCode() })
    for (let n = 0; n < 9; n += 1) expect((await guess(n)).statusCode).toBe(422)
    expect((await page()).statusCode).toBe(200)
    expect((await guess(9)).statusCode).toBe(422)
    const blocked = await page(user_code)
    expect(blocked.statusCode).toBe(429)
    expect(Number(blocked.headers['retry-after'])).toBeGreaterThan(800)
    expect((await guess(1)).statusCode).toBe(429)
  })

  it('limits wrong codes of a network, which uses up the limits of no accounts while it is blocked (OPENID 227)', async () => {
    const guess = async (cookie: string, remoteAddress: string) => {
      const url = `/device?user_code=${makeUserCode()}`
      return (await t.app.inject({ url, headers: { cookie }, remoteAddress })).statusCode
    }
    const people = await Promise.all([1, 2, 3, 4].map(async () => signIn(t.app, await anAccount(t.db))))
    const last = people.pop() ?? ''
    for (const cookie of people)
      for (let n = 0; n < 10; n += 1) expect(await guess(cookie, '203.0.113.9')).toBe(422)
    for (let n = 0; n < 11; n += 1) expect(await guess(last, '203.0.113.9')).toBe(429)
    expect(await guess(last, '203.0.113.10')).toBe(422)
  })

  it('is not looked up by a link of another site, which fills in the form and counts as no attempt (OPENID 223)', async () => {
    const { cookie, user_code, page } = await aDevice()
    const follow = (code: string) =>
      t.app.inject({
        url: `/device?user_code=${code}`,
        headers: { cookie, 'sec-fetch-site': 'cross-site' },
      })
    for (let n = 0; n < 11; n += 1) expect((await follow(makeUserCode())).statusCode).toBe(200)
    const form = await follow(user_code)
    expect([form.statusCode, form.body.includes('value="approve"')]).toEqual([200, false])
    expect(form.body).toContain(`name="user_code" value="${user_code}"`)
    expect((await page()).body).toContain('value="approve"')
  })

  it('is nothing that a HEAD request changes', async () => {
    const { cookie, user_code } = await aDevice()
    const before = await countRows(t.db, 'authorization_request')
    const headers = { cookie }
    expect(
      (await t.app.inject({ method: 'HEAD', url: `/device?user_code=${user_code}`, headers })).body,
    ).toBe('')
    expect(await countRows(t.db, 'authorization_request')).toBe(before)
  })
})

describe('the code of a device', () => {
  it.each([
    ['bcdf-ghjk', 'BCDF-GHJK'],
    [' b c d f g h j k ', 'BCDF-GHJK'],
    ['BCDFGHJK', 'BCDF-GHJK'],
    ['BCDF–GHJK', 'BCDF-GHJK'],
    ['BCDA-GHJK', null],
    ['BCDF-GHJ', null],
    ['BCDF-GHJKL', null],
    ['', null],
  ])('%j is read as %j', (typed, code) => {
    expect(readUserCode(typed)).toBe(code)
  })
})

describe('a device behind a proxy', () => {
  const t = useApp({ TRUST_PROXY: 'true' })

  it.each([
    ['its IP with a port', '192.0.2.7:4711', '192.0.2.7'],
    ['its IP with a zone', 'fe80::1%eth0', 'fe80::1'],
    ['no IP', 'unknown', '127.0.0.1'],
  ])('gets its codes when the proxy forwards %s (OPENID 221, 223)', async (_, forwarded, shown) => {
    const { clientId } = await anApplication(t.db, { isPublic: true, isDevice: true })
    const form = new URLSearchParams({ client_id: clientId }).toString()
    const response = await postForm(t, '/oauth2/device', form, { 'x-forwarded-for': forwarded })
    expect(response.statusCode).toBe(200)
    const cookie = await signIn(t.app, await anAccount(t.db))
    const { user_code } = response.json()
    const { body } = await open(t, `/device?user_code=${user_code}`, cookie)
    expect(body).toContain(`network address ${shown},`)
  })
})

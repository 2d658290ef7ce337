import argon2 from 'argon2'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  addSignInOrigins,
  describeSignInOrigins,
  endFailureWindows,
  forgetFailures,
  setFailures,
} from '../support/account-rows.ts'
import { anAccount, cookiesOf, csrfTokenIn, hashCheaply, password, post } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { countEvents, holdHour } from '../support/event-rows.ts'
import { countRows, dropRows } from '../support/rows.ts'

describe('POST /login after wrong passwords', () => {
  const t = useApp({ TRUST_PROXY: 'true' })

  beforeAll(() => holdHour(t.db))
  beforeEach(async () => {
    await forgetFailures(t.db)
  })
  afterEach(() => void vi.restoreAllMocks())

  /** Sends the sign-in form from an IP address, as a browser that may have cookies already. */
  async function attempt(username: string, sent: string, ip: string, cookie = '') {
    const form = await t.app.inject({ url: '/login', headers: { cookie } })
    const fields = { csrf_token: csrfTokenIn(form), username, password: sent }
    const cookies = [cookie, cookiesOf(form)].filter(Boolean).join('; ')
    return post(t.app, '/login', cookies, fields, { 'x-forwarded-for': ip })
  }

  /** An account whose wrong passwords are checked at little cost. */
  const anAttackedAccount = (about: { username?: string; email?: string } = {}) =>
    anAccount(t.db, { ...about, hash: hashCheaply(password) })

  /** Counts this many failed attempts without sending them. */
  async function fail(username: string, ip: string, times: number) {
    await attempt(username, 'wrong', ip)
    await setFailures(t.db, times)
  }

  /** Signs a browser in and out again, and returns its device cookie. */
  async function aKnownBrowser(username: string, ip: string): Promise<string> {
    const response = await attempt(username, password, ip)
    const device = response.cookies.find(({ name }) => name === 'svc_device') ?? expect.fail()
    expect(device).toMatchObject({ httpOnly: true, sameSite: 'Lax', path: '/', maxAge: 180 * 86_400 })
    return `svc_device=${device.value}`
  }

  it('returns how long to wait after ten from one network, and checks no more passwords', async () => {
    const { username } = await anAttackedAccount()
    const wrong = []
    for (let n = 0; n < 11; n++) wrong.push(await attempt(username, 'wrong', '192.0.2.1'))
    expect(wrong.map(({ statusCode }) => statusCode)).toEqual([...Array(10).fill(403), 429])
    const right = await attempt(username, password, '192.0.2.1')
    expect(right.statusCode).toBe(429)
    expect(Number(right.headers['retry-after'])).toBeGreaterThan(600)
    expect(right.body).toContain('Try again in 15 minutes')
  })

  it('counts an attempt before it hashes the password: of forty at once it checks ten', async () => {
    const { username } = await anAccount(t.db)
    const verify = vi.spyOn(argon2, 'verify')
    const all = Array.from({ length: 40 }, () => attempt(username, 'wrong', '192.0.2.1'))
    const statuses = (await Promise.all(all)).map(({ statusCode }) => statusCode)
    expect(statuses.filter((status) => status === 403)).toHaveLength(10)
    expect(statuses.filter((status) => status === 429)).toHaveLength(30)
    expect(verify).toHaveBeenCalledTimes(10)
  })

  it('limits an account that does not exist in the same way', async () => {
    await fail('nobody', '192.0.2.1', 10)
    expect((await attempt('nobody', password, '192.0.2.1')).statusCode).toBe(429)
  })

  it('counts a name that looks like an account’s id separately from that account', async () => {
    const { id, username } = await anAttackedAccount()
    await fail(id, '192.0.2.1', 10)
    expect((await attempt(id, 'wrong', '192.0.2.1')).statusCode).toBe(429)
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(303)
  })

  it('does not show by its limits that a username and an email belong together', async () => {
    const { username } = await anAttackedAccount({ email: 'bea@example.com' })
    await fail(username, '192.0.2.1', 10)
    expect((await attempt('BEA@example.com', 'wrong', '192.0.2.1')).statusCode).toBe(403)
    await fail('bea@example.com', '192.0.2.2', 9)
    expect((await attempt('BEA@example.com', 'wrong', '192.0.2.2')).statusCode).toBe(403)
    expect((await attempt('bea@example.com', 'wrong', '192.0.2.2')).statusCode).toBe(429)
  })

  it('counts from the beginning again after the right password', async () => {
    const { username } = await anAttackedAccount()
    for (let round = 0; round < 2; round++) {
      await fail(username, '192.0.2.1', 9)
      expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(303)
    }
    for (let n = 0; n < 9; n++) await attempt(username, 'wrong', '192.0.2.1')
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(303)
  })

  it('still accepts a sign-in from another network', async () => {
    const { username } = await anAttackedAccount()
    await fail(username, '192.0.2.1', 10)
    expect((await attempt(username, password, '192.0.2.2')).statusCode).toBe(303)
  })

  it('does not let one network use up the limit of an account for all networks', async () => {
    const { username } = await anAttackedAccount()
    const all = Array.from({ length: 120 }, () => attempt(username, 'wrong', '192.0.2.1'))
    await Promise.all(all)
    expect((await attempt(username, password, '192.0.2.2')).statusCode).toBe(303)
  })

  it('blocks a network for every account after a hundred wrong passwords', async () => {
    const [one, two] = [await anAttackedAccount(), await anAttackedAccount()]
    await fail(one.username, '192.0.2.1', 100)
    expect((await attempt(two.username, password, '192.0.2.1')).statusCode).toBe(429)
  })

  it('writes no more rows for a network that is blocked, whatever usernames it tries', async () => {
    await fail('nobody', '192.0.2.1', 100)
    const rows = () => countRows(t.db, 'auth_failure')
    const before = await rows()
    for (let n = 0; n < 5; n++) await attempt(`nobody-${n}`, 'wrong', '192.0.2.1')
    expect(await rows()).toBe(before)
  })

  it('counts the IPs of one IPv6 network as one', async () => {
    const { username } = await anAttackedAccount()
    await fail(username, '2001:db8:1:2::1', 10)
    expect((await attempt(username, password, '2001:db8:1:2::ffff')).statusCode).toBe(429)
  })

  it('counts the networks of one IPv6 site together: it cannot use up the limit for all networks', async () => {
    const { username } = await anAttackedAccount()
    const statuses = []
    for (let n = 0; n < 45; n++) {
      const { statusCode } = await attempt(username, 'wrong', `2001:db8:1:${n.toString(16)}::1`)
      statuses.push(statusCode)
    }
    expect(statuses).toEqual([...Array(40).fill(403), ...Array(5).fill(429)])
    expect((await attempt(username, password, '2001:db8:1:ffff::1')).statusCode).toBe(429)
    expect((await attempt(username, password, '2001:db8:2::1')).statusCode).toBe(303)
  })

  it('writes one event for the lock of an IPv6 site, from whichever of its networks the attempts come', async () => {
    const { id, username } = await anAttackedAccount()
    for (let n = 0; n < 45; n++) await attempt(username, 'wrong', `2001:db8:9:${n.toString(16)}::1`)
    expect(await countEvents(t.db, { accountId: id, action: 'sign-in-locked' })).toBe(1)
  })

  it('blocks an IPv6 site for every account after four hundred wrong passwords', async () => {
    const account = await anAttackedAccount()
    await fail('nobody', '2001:db8:1:2::1', 400)
    expect((await attempt(account.username, password, '2001:db8:1:3::1')).statusCode).toBe(429)
    expect((await attempt(account.username, password, '2001:db8:2:3::1')).statusCode).toBe(303)
  })

  it('gives no spelling of a name a counter of its own', async () => {
    const { username } = await anAttackedAccount({ username: 'michi', email: 'michi@example.com' })
    for (const spelling of ['m\u0130chi', 'm\u0130chi@example.com']) {
      // PostgreSQL makes an i of the capital I with a dot, and JavaScript an i with a dot above.
      expect((await attempt(spelling, password, '192.0.2.1')).statusCode).toBe(403)
    }
    await fail('MICHI', '192.0.2.1', 10)
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(429)
    expect((await attempt(` ${username} `, password, '192.0.2.1')).statusCode).toBe(429)
  })

  it('blocks an account after a hundred wrong passwords, except on networks where it signed in before', async () => {
    const { username } = await anAttackedAccount()
    expect((await attempt(username, password, '198.51.100.7')).statusCode).toBe(303)
    // After signing out, the network is still known.
    await dropRows(t.db, 'session')
    await fail(username, '192.0.2.1', 100)
    expect((await attempt(username, password, '203.0.113.9')).statusCode).toBe(429)
    expect((await attempt(username, password, '198.51.100.7')).statusCode).toBe(303)
  })

  it('does not lock out a browser that signed in before, even on the network of the guesses', async () => {
    const { username } = await anAttackedAccount()
    const cookie = await aKnownBrowser(username, '192.0.2.1')
    await fail(username, '192.0.2.1', 1000)
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(429)
    expect((await attempt(username, password, '192.0.2.1', cookie)).statusCode).toBe(303)
  })

  it('counts a browser that signed in before separately, and only for its own account', async () => {
    const [ann, bea] = [await anAttackedAccount(), await anAttackedAccount()]
    const cookie = await aKnownBrowser(ann.username, '192.0.2.1')
    await forgetFailures(t.db)
    for (let n = 0; n < 10; n++) await attempt(ann.username, 'wrong', `192.0.2.${n}`, cookie)
    expect((await attempt(ann.username, password, '192.0.2.1', cookie)).statusCode).toBe(429)
    expect((await attempt(ann.username, password, '192.0.2.1')).statusCode).toBe(303)
    await fail(bea.username, '192.0.2.1', 1000)
    expect((await attempt(bea.username, password, '192.0.2.1', cookie)).statusCode).toBe(429)
  })

  it('does not accept a forged cookie as a known browser', async () => {
    const { username } = await anAttackedAccount()
    await fail(username, '192.0.2.1', 1000)
    const forged = `svc_device=${'A'.repeat(43)}`
    expect((await attempt(username, password, '192.0.2.1', forged)).statusCode).toBe(429)
  })

  it('resets the counts after a right password', async () => {
    const { username } = await anAttackedAccount()
    await fail(username, '192.0.2.1', 9)
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(303)
    expect((await attempt(username, 'wrong', '192.0.2.1')).statusCode).toBe(403)
  })

  it('checks passwords again after the wait', async () => {
    const { username } = await anAttackedAccount()
    await fail(username, '192.0.2.1', 10)
    await endFailureWindows(t.db)
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(303)
  })

  it('keeps fifty browsers and networks of an account, the most recent ones', async () => {
    const { id, username } = await anAttackedAccount()
    await addSignInOrigins(t.db, { id }, 60)
    await attempt(username, password, '192.0.2.1')
    const { count, oldestMinutes } = await describeSignInOrigins(t.db, { id })
    expect(count).toBe(50)
    expect(oldestMinutes).toBeLessThan(50)
  })
})

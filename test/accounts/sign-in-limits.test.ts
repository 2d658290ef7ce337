import argon2 from 'argon2'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { anAccount, cookiesOf, csrfTokenIn, password, post } from '../support/actors.ts'
import { useApp } from '../support/app.ts'

describe('POST /login after wrong passwords', () => {
  const t = useApp({ TRUST_PROXY: 'true' })

  beforeEach(async () => {
    await t.db.query('delete from auth_failure')
  })

  /** Sends the sign-in form from an address. */
  async function attempt(username: string, sent: string, address: string) {
    const form = await t.app.inject('/login')
    const fields = { csrf_token: csrfTokenIn(form), username, password: sent }
    return post(t.app, '/login', cookiesOf(form), fields, { 'x-forwarded-for': address })
  }

  /** Pretends that this many have failed. */
  async function fail(username: string, address: string, times: number) {
    await attempt(username, 'wrong', address)
    await t.db.query('update auth_failure set failures = $1', [times])
  }

  it('says after ten from one address how long to wait, and checks nothing any more', async () => {
    const { username } = await anAccount(t.db)
    const wrong = []
    for (let n = 0; n < 10; n++) wrong.push(await attempt(username, 'wrong', '192.0.2.1'))
    expect(wrong.map(({ statusCode }) => statusCode)).toEqual([...Array(9).fill(403), 429])
    const right = await attempt(username, password, '192.0.2.1')
    expect(right.statusCode).toBe(429)
    expect(Number(right.headers['retry-after'])).toBeGreaterThan(600)
    expect(right.body).toContain('Try again in 15 minutes')
  })

  it('says the same of an account that does not exist', async () => {
    await fail('nobody', '192.0.2.1', 10)
    expect((await attempt('nobody', password, '192.0.2.1')).statusCode).toBe(429)
  })

  it('counts an account once, by whichever of its names', async () => {
    const { username } = await anAccount(t.db, { email: 'bea@example.com' })
    await fail(username, '192.0.2.1', 9)
    expect((await attempt('BEA@example.com', 'wrong', '192.0.2.1')).statusCode).toBe(429)
  })

  it('lets the account in from elsewhere', async () => {
    const { username } = await anAccount(t.db)
    await fail(username, '192.0.2.1', 10)
    expect((await attempt(username, password, '192.0.2.2')).statusCode).toBe(303)
  })

  it('keeps a hundred guesses from one address off every account', async () => {
    const [one, two] = [await anAccount(t.db), await anAccount(t.db)]
    await fail(one.username, '192.0.2.1', 100)
    expect((await attempt(two.username, password, '192.0.2.1')).statusCode).toBe(429)
  })

  it('takes the addresses of one IPv6 network for one', async () => {
    const { username } = await anAccount(t.db)
    await fail(username, '2001:db8:1:2::1', 10)
    expect((await attempt(username, password, '2001:db8:1:2::ffff')).statusCode).toBe(429)
  })

  it('keeps a hundred guesses from everywhere off an account, but not where it is signed in', async () => {
    const { username } = await anAccount(t.db)
    expect((await attempt(username, password, '198.51.100.7')).statusCode).toBe(303)
    await fail(username, '192.0.2.1', 100)
    expect((await attempt(username, password, '203.0.113.9')).statusCode).toBe(429)
    expect((await attempt(username, password, '198.51.100.7')).statusCode).toBe(303)
  })

  it('forgets them once the password was right', async () => {
    const { username } = await anAccount(t.db)
    await fail(username, '192.0.2.1', 9)
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(303)
    expect((await attempt(username, 'wrong', '192.0.2.1')).statusCode).toBe(403)
  })

  it('checks again when the time is over', async () => {
    const { username } = await anAccount(t.db)
    await fail(username, '192.0.2.1', 10)
    await t.db.query('update auth_failure set window_ends_at = now()')
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(303)
  })

  it('holds a right guess when the limit was reached while it was checked', async () => {
    const { username } = await anAccount(t.db)
    await fail(username, '192.0.2.1', 9)
    vi.spyOn(argon2, 'verify').mockImplementationOnce(async () => {
      await t.db.query('update auth_failure set failures = 10')
      return true
    })
    expect((await attempt(username, password, '192.0.2.1')).statusCode).toBe(429)
    vi.restoreAllMocks()
  })
})

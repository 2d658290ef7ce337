import { describe, expect, it } from 'vitest'
import { renameCommand } from '../../src/commands/account-changes.ts'
import { forgetFailures, setFailures } from '../support/account-rows.ts'
import { anAccount, cookiesOf, csrfTokenIn, password, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { lockRow, openTransaction, untilWaiting } from '../support/locks.ts'

const chosen = 'a new and longer password'

describe('/settings/account', () => {
  const t = useApp()

  /** A signed-in browser with the page open. */
  async function anOpenPage() {
    const account = await anAccount(t.db, { displayName: 'Ann <b>', email: null })
    const cookie = await signIn(t.app, account)
    const page = await t.app.inject({ url: '/settings/account', headers: { cookie } })
    const fields = {
      csrf_token: csrfTokenIn(page),
      current_password: password,
      new_password: chosen,
      repeated_password: chosen,
    }
    return { account, cookie, page, fields }
  }

  const isSignedIn = async (cookie: string) =>
    (await t.app.inject({ url: '/settings/account', headers: { cookie } })).statusCode === 200

  it('shows the account, and escapes every value', async () => {
    const { account, page } = await anOpenPage()
    expect(page.body).toContain(account.username)
    expect(page.body).toContain('Ann &lt;b&gt;')
    expect(page.body).not.toContain('Ann <b>')
  })

  it('promises the reservation of the last ten former usernames only', async () => {
    const { cookie: own } = await anOpenPage()
    const page = await t.app.inject({ url: '/settings/account/sign-in', headers: { cookie: own } })
    expect(page.body).toContain('This applies to your last ten former usernames.')
    const cookie = await signIn(t.app, await anAccount(t.db, { isAdmin: true }))
    const { username } = await anAccount(t.db)
    const { body } = await t.app.inject({ url: `/admin/accounts/${username}/details`, headers: { cookie } })
    expect(body).toContain('This applies to the last ten of an account.')
    expect(renameCommand().description()).toContain('This applies to its last ten former usernames.')
  })

  it('requires a signed-in person, also for the form', async () => {
    const response = await t.app.inject('/settings/account')
    expect(response.statusCode).toBe(303)
    expect(response.headers.location).toMatch(/^\/login\?return=/)
  })

  it('changes the password, ends the other sessions and renews this one', async () => {
    const { account, cookie, fields } = await anOpenPage()
    const elsewhere = await signIn(t.app, account)
    const response = await post(t.app, '/settings/account/password', cookie, fields)
    expect(response.statusCode).toBe(303)
    expect(await isSignedIn(elsewhere)).toBe(false)
    expect(await isSignedIn(cookie)).toBe(false)
    expect(await isSignedIn(cookiesOf(response))).toBe(true)
    await expect(signIn(t.app, account)).rejects.toThrow('could not sign in')
  })

  it.each([
    ['the current password is wrong', { current_password: 'wrong' }, 403, 'current password is wrong'],
    ['the new one is short', { new_password: 'short', repeated_password: 'short' }, 400, 'at least 12'],
    [
      'the new one is common',
      { new_password: 'Qwerty123456', repeated_password: 'Qwerty123456' },
      400,
      'common',
    ],
    ['the new one is not repeated', { repeated_password: 'other' }, 400, 'not the same'],
    [
      'the new one is longer than 1024 bytes',
      { new_password: 'é'.repeat(513), repeated_password: 'é'.repeat(513) },
      400,
      'longer than 1024 bytes',
    ],
  ])('changes nothing when %s', async (_what, difference, status, words) => {
    const { account, cookie, fields } = await anOpenPage()
    const response = await post(t.app, '/settings/account/password', cookie, { ...fields, ...difference })
    expect(response.statusCode).toBe(status)
    expect(response.body).toContain(words)
    await signIn(t.app, account)
  })

  it('leads to the sign-in when another change of the account was first', async () => {
    const { account, cookie, fields } = await anOpenPage()
    const { tx, rollback } = await openTransaction(t.db)
    await lockRow(tx, 'account', account)
    const both = [1, 2].map(() => post(t.app, '/settings/account/password', cookie, fields))
    await untilWaiting(t.db, 2)
    await rollback()
    const responses = (await Promise.all(both)).toSorted((one, two) => one.statusCode - two.statusCode)
    expect(responses.map(({ statusCode }) => statusCode)).toEqual([303, 409])
    expect(responses[1]?.body).toContain('Your account was changed a moment ago, so you are signed out.')
    expect(responses[1]?.body).toMatch(/href="\/login"[^>]*>Sign in</)
  })

  it('limits guesses at the current password', async () => {
    const { account, cookie, fields } = await anOpenPage()
    const wrong = { ...fields, current_password: 'wrong' }
    await post(t.app, '/settings/account/password', cookie, wrong)
    await setFailures(t.db, 10)
    const response = await post(t.app, '/settings/account/password', cookie, fields)
    expect(response.statusCode).toBe(429)
    expect(response.headers['retry-after']).toBeDefined()
    await forgetFailures(t.db)
    await signIn(t.app, account)
  })

  it('signs out everywhere', async () => {
    const { account, cookie, fields } = await anOpenPage()
    const elsewhere = await signIn(t.app, account)
    const { csrf_token } = fields
    const response = await post(t.app, '/settings/account/sign-out-everywhere', cookie, { csrf_token })
    expect(response.statusCode).toBe(303)
    expect(await isSignedIn(elsewhere)).toBe(false)
    expect(await isSignedIn(cookie)).toBe(false)
  })
})

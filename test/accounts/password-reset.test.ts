import { describe, expect, it } from 'vitest'
import { disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { listIdentityEvents } from '../../src/accounts/identity-events.ts'
import { makeResetToken } from '../../src/accounts/password-resets.ts'
import { commandActor } from '../../src/database/database.ts'
import { anAccount, cookiesOf, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'

const chosen = 'a new and longer password'

describe('/password-reset', () => {
  const t = useApp()

  async function aLink() {
    const account = await anAccount(t.db)
    const token = (await makeResetToken(t.db, commandActor, account.id)) ?? ''
    return { account, token, open: () => t.app.inject(`/password-reset?token=${token}`) }
  }

  async function send(token: string, password = chosen, repeated = password) {
    const form = await t.app.inject('/login')
    const fields = {
      csrf_token: csrfTokenIn(form),
      token,
      new_password: password,
      repeated_password: repeated,
    }
    return post(t.app, '/password-reset', cookiesOf(form), fields)
  }

  it('sets a password once, ends the sessions, and confirms it', async () => {
    const { account, token, open } = await aLink()
    const cookie = await signIn(t.app, account)
    expect((await open()).body).toContain(account.username)
    const racing = await Promise.all([send(token), send(token), send(token)])
    expect(racing.map(({ statusCode }) => statusCode).sort((one, other) => one - other)).toEqual([
      200, 410, 410,
    ])
    expect((await t.app.inject({ url: '/settings/account', headers: { cookie } })).statusCode).toBe(303)
    await expect(signIn(t.app, account)).rejects.toThrow('could not sign in')
    const events = await listIdentityEvents(t.db, { accountId: account.id }, { after: null, limit: 10 })
    const actions = events.map(({ action }) => action)
    expect(actions.slice(1, 3).sort()).toEqual(['password-changed', 'session-ended'])
    expect(actions.slice(3)).toEqual(['sign-in', 'reset-link-created', 'account-created'])
    expect((await open()).statusCode).toBe(410)
    expect(t.log()).not.toContain(token)
  })

  it('keeps the link when the password is refused', async () => {
    const { token } = await aLink()
    expect((await send(token, 'short')).statusCode).toBe(400)
    expect((await send(token, chosen, 'other')).statusCode).toBe(400)
    expect((await send(token)).statusCode).toBe(200)
  })

  it.each<[string, (account: { id: string }) => Promise<unknown>]>([
    ['after an hour', () => t.db.query(`update password_reset set expires_at = now()`)],
    ['after a newer link was made', ({ id }) => makeResetToken(t.db, commandActor, id)],
    [
      'after the password was changed',
      ({ id }) => t.db.query(`update account set password_hash = 'another' where id = $1`, [id]),
    ],
    ['for a disabled account', ({ id }) => disableAccount(t.db, commandActor, id)],
  ])('refuses a link %s', async (_when, change) => {
    const { account, token, open } = await aLink()
    expect((await open()).statusCode).toBe(200)
    await change(account)
    expect((await open()).statusCode).toBe(410)
    expect((await send(token)).statusCode).toBe(410)
  })

  it('explains what to do without a link, and rejects an unknown one', async () => {
    const page = await t.app.inject('/password-reset')
    expect([page.statusCode, page.body.includes('Ask an administrator')]).toEqual([200, true])
    expect((await send('')).statusCode).toBe(410)
    expect((await t.app.inject('/password-reset?token=nonsense')).statusCode).toBe(410)
    expect((await t.app.inject('/login')).body).toContain('href="/password-reset"')
  })
})

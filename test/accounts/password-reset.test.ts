import { describe, expect, it } from 'vitest'
import { disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { setPasswordHash } from '../../src/accounts/accounts.ts'
import { makeResetToken } from '../../src/accounts/password-resets.ts'
import { operator } from '../../src/domain/principal.ts'
import { listEvents } from '../../src/events/event-list.ts'
import { aName, anAccount, cookiesOf, csrfTokenIn, password, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { expire } from '../support/rows.ts'

const chosen = 'a new and longer password'

describe('/password-reset', () => {
  const t = useApp()

  async function aLink() {
    const account = await anAccount(t.db)
    const token = (await makeResetToken(t.db, operator, account.id)) ?? ''
    return { account, token, open: () => t.app.inject(`/password-reset?token=${token}`) }
  }

  async function send(token: string, first = chosen, repeated = first, cookie = '') {
    const form = await t.app.inject('/login')
    const fields = {
      csrf_token: csrfTokenIn(form),
      token,
      new_password: first,
      repeated_password: repeated,
    }
    return post(t.app, '/password-reset', `${cookiesOf(form)}; ${cookie}`, fields)
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
    const events = await listEvents(t.db, { subjectId: account.id }, { after: null, limit: 10 })
    const actions = events.map(({ action }) => action)
    expect(actions.slice(1, 3).sort()).toEqual(['password-changed', 'session-ended'])
    expect(actions.slice(3)).toEqual(['sign-in', 'reset-link-created', 'account-created'])
    expect((await open()).statusCode).toBe(410)
    expect(t.log()).not.toContain(token)
  })

  it.each(['username', 'email'])(
    'lets the browser that set the password sign in with its %s at once, after too many wrong ones',
    async (kind) => {
      const email = `${aName('ann')}@example.com`
      const account = await anAccount(t.db, { email })
      const login = kind === 'email' ? email : account.username
      const form = await t.app.inject('/login')
      const signInWith = (cookie: string, sent: string) =>
        post(t.app, '/login', `${cookiesOf(form)}; ${cookie}`, {
          csrf_token: csrfTokenIn(form),
          username: login,
          password: sent,
        })
      const known = cookiesOf(await signInWith('', password)).replace(/svc_session=[^;]+;? ?/, '')
      expect(known).toContain('svc_device=')
      for (const cookie of ['', known]) {
        for (let n = 0; n < 11; n += 1) await signInWith(cookie, 'forgotten')
        expect((await signInWith(cookie, password)).statusCode).toBe(429)
      }
      const done = await send((await makeResetToken(t.db, operator, account.id)) ?? '', chosen, chosen, known)
      expect(cookiesOf(done)).toContain('svc_device=')
      expect((await signInWith(cookiesOf(done), chosen)).statusCode).toBe(303)
      const events = await listEvents(t.db, { subjectId: account.id }, { after: null, limit: 1 })
      expect(events[0]).toMatchObject({ action: 'sign-in' })
      expect(events[0]?.details).not.toHaveProperty('new_browser')
      // Another browser on the network can sign in too: the counters of the name are cleared.
      expect((await signInWith('', chosen)).statusCode).toBe(303)
    },
  )

  it('forgets the browsers and networks of the account, except the one that set the password', async () => {
    const { account, token } = await aLink()
    const form = await t.app.inject('/login')
    const signInFrom = (cookie: string) =>
      post(t.app, '/login', `${cookiesOf(form)}; ${cookie}`, {
        csrf_token: csrfTokenIn(form),
        username: account.username,
        password: chosen,
      })
    // Somebody who knew the old password has signed in.
    const other = await signIn(t.app, account)
    const device = /svc_device=[^;]+/.exec(other)?.[0] ?? ''
    expect(device).not.toBe('')
    expect((await send(token)).statusCode).toBe(200)
    expect((await signInFrom(device)).statusCode).toBe(303)
    const [latest] = await listEvents(t.db, { subjectId: account.id }, { after: null, limit: 1 })
    expect(latest).toMatchObject({ action: 'sign-in', details: { new_browser: true } })
  })

  it('keeps the link when the password is refused', async () => {
    const { token } = await aLink()
    expect((await send(token, 'short')).statusCode).toBe(400)
    expect((await send(token, chosen, 'other')).statusCode).toBe(400)
    expect((await send(token)).statusCode).toBe(200)
  })

  it.each<[string, (account: { id: string }) => Promise<unknown>]>([
    ['after an hour', () => expire(t.db, 'password_reset')],
    ['after a newer link was made', ({ id }) => makeResetToken(t.db, operator, id)],
    ['after the password was changed', ({ id }) => setPasswordHash(t.db, operator, id, 'another')],
    ['for a disabled account', ({ id }) => disableAccount(t.db, operator, id)],
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

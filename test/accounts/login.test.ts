import { describe, expect, it } from 'vitest'
import { rememberReturn } from '../../src/accounts/sign-in-returns.ts'
import { anAccount, cookiesOf, csrfTokenIn, password, post, signIn } from '../support/actors.ts'
import { type TestApp, useApp } from '../support/app.ts'

/** A browser with the sign-in form open: what it sends with it, and its cookies. */
async function anOpenForm({ app }: TestApp, username: string) {
  const form = await app.inject('/login')
  return { cookie: cookiesOf(form), fields: { csrf_token: csrfTokenIn(form), username, password } }
}

describe('GET /login', () => {
  const t = useApp()

  it('shows a form that no frame, cache or foreign page gets hold of', async () => {
    const { headers } = await t.app.inject('/login')
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
      'x-content-type-options': 'nosniff',
    })
    expect(headers['content-security-policy']).toContain("default-src 'none'")
  })

  it('leaves form-action out: a sign-in may lead on to an application (OAUTH 41)', async () => {
    const { headers } = await t.app.inject('/login')
    expect(headers['content-security-policy']).not.toContain('form-action')
  })

  it('goes on at once when the browser is signed in already', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const id = await rememberReturn(t.db, '/settings/tokens')
    const answer = await t.app.inject({ url: `/login?return=${id}`, headers: { cookie } })
    expect(answer.statusCode).toBe(303)
    expect(answer.headers.location).toBe('/settings/tokens')
  })
})

describe('POST /login', () => {
  const t = useApp()

  it('signs in by username or email and gives the browser a session it cannot read', async () => {
    const account = await anAccount(t.db, { email: 'Ann@example.com' })
    for (const login of [account.username, 'ann@EXAMPLE.com']) {
      const { cookie, fields } = await anOpenForm(t, login)
      const answer = await post(t.app, '/login', cookie, fields)
      expect(answer.statusCode).toBe(303)
      expect(answer.cookies.find(({ name }) => name === 'svc_session')).toMatchObject({
        httpOnly: true,
        sameSite: 'Lax',
        path: '/',
      })
    }
  })

  it('refuses a wrong password and an unknown account with the same words', async () => {
    const { username } = await anAccount(t.db)
    const { cookie, fields } = await anOpenForm(t, username)
    const wrong = await post(t.app, '/login', cookie, { ...fields, password: 'wrong' })
    const unknown = await post(t.app, '/login', cookie, { ...fields, username: 'nobody' })
    expect(wrong.statusCode).toBe(403)
    expect(unknown.statusCode).toBe(403)
    expect(wrong.body).toContain('do not match')
    expect(wrong.body.replaceAll(username, 'nobody')).toBe(unknown.body)
  })

  it('refuses a form without its token, or with one made for another browser', async () => {
    const { username } = await anAccount(t.db)
    const mine = await anOpenForm(t, username)
    const other = await anOpenForm(t, username)
    for (const csrf_token of ['', 'x', other.fields.csrf_token]) {
      const answer = await post(t.app, '/login', mine.cookie, { ...mine.fields, csrf_token })
      expect(answer.statusCode).toBe(403)
      expect(answer.headers['content-type']).toContain('text/html')
    }
  })

  it.each(['https://evil.example', 'nonsense'])('refuses a form sent from %s', async (origin) => {
    const { username } = await anAccount(t.db)
    const { cookie, fields } = await anOpenForm(t, username)
    const answer = await post(t.app, '/login', cookie, fields, { origin })
    expect(answer.statusCode).toBe(403)
  })

  it.each(['http://svc.test', 'http://localhost'])('takes a form sent from %s', async (origin) => {
    const { username } = await anAccount(t.db)
    const { cookie, fields } = await anOpenForm(t, username)
    const answer = await post(t.app, '/login', cookie, fields, { origin })
    expect(answer.statusCode).toBe(303)
  })
})

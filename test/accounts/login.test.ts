import { randomBytes } from 'node:crypto'
import { deflateRawSync } from 'node:zlib'
import argon2 from 'argon2'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { setDisabled, setPasswordHash } from '../../src/accounts/accounts.ts'
import { hashPassword } from '../../src/accounts/passwords.ts'
import { operator } from '../../src/domain/principal.ts'
import { findReturn, signAuthorizationLink, signPage } from '../../src/web/pages/sign-in/return-path.ts'
import { removePassword, storedAccount } from '../support/account-rows.ts'
import { anAccount, cookiesOf, csrfTokenIn, hashCheaply, password, post, signIn } from '../support/actors.ts'
import { type TestApp, useApp } from '../support/app.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { countRows, dropRows } from '../support/rows.ts'

/** A browser with the sign-in form open. Returns the fields of the form and the cookies. */
async function anOpenForm({ app }: TestApp, username: string) {
  const form = await app.inject('/login')
  return { cookie: cookiesOf(form), fields: { csrf_token: csrfTokenIn(form), username, password } }
}

describe('GET /login', () => {
  const t = useApp()

  it('shows a form that no frame, cache or other site can read', async () => {
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

  it('leaves form-action out: a sign-in may redirect to an application (OAUTH 41)', async () => {
    const { headers } = await t.app.inject('/login')
    expect(headers['content-security-policy']).not.toContain('form-action')
  })

  it('redirects at once when the browser is signed in already', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const id = await signPage(t.db, '/settings/tokens')
    const response = await t.app.inject({ url: `/login?return=${id}`, headers: { cookie } })
    expect(response.statusCode).toBe(303)
    expect(response.headers.location).toBe('/settings/tokens')
  })
})

describe('POST /login', () => {
  const t = useApp()

  it('signs in by username or email and gives the browser a session it cannot read', async () => {
    const account = await anAccount(t.db, { email: 'Ann@example.com' })
    for (const login of [account.username, 'ann@EXAMPLE.com']) {
      const { cookie, fields } = await anOpenForm(t, login)
      const response = await post(t.app, '/login', cookie, fields)
      expect(response.statusCode).toBe(303)
      expect(response.cookies.find(({ name }) => name === 'svc_session')).toMatchObject({
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
      const response = await post(t.app, '/login', mine.cookie, { ...mine.fields, csrf_token })
      expect(response.statusCode).toBe(403)
      expect(response.headers['content-type']).toContain('text/html')
    }
  })

  it.each(['https://evil.example', 'nonsense'])('refuses a form sent from %s', async (origin) => {
    const { username } = await anAccount(t.db)
    const { cookie, fields } = await anOpenForm(t, username)
    const response = await post(t.app, '/login', cookie, fields, { origin })
    expect(response.statusCode).toBe(403)
  })

  it.each(['http://svc.test', 'http://localhost'])('accepts a form sent from %s', async (origin) => {
    const { username } = await anAccount(t.db)
    const { cookie, fields } = await anOpenForm(t, username)
    const response = await post(t.app, '/login', cookie, fields, { origin })
    expect(response.statusCode).toBe(303)
  })

  afterEach(() => {
    vi.restoreAllMocks()
  })

  it('does the same work for an unknown account as for a known one', async () => {
    const [{ username }, person] = [await anAccount(t.db), await anAccount(t.db)]
    await removePassword(t.db, person)
    const { cookie, fields } = await anOpenForm(t, username)
    const verify = vi.spyOn(argon2, 'verify')
    for (const name of [username, 'nobody', person.username])
      await post(t.app, '/login', cookie, { ...fields, username: name, password: 'wrong' })
    const [known = '', unknown = '', withoutPassword] = verify.mock.calls.map(([hash]) => hash)
    expect(verify).toHaveBeenCalledTimes(3)
    expect(costOf(known)).toBe(costOf(unknown))
    expect(known).not.toBe(unknown)
    expect(withoutPassword).toBe(unknown)
  })

  it('refuses a disabled account like an unknown one', async () => {
    const { id, username } = await anAccount(t.db)
    await setDisabled(t.db, operator, id, true)
    const { cookie, fields } = await anOpenForm(t, username)
    expect((await post(t.app, '/login', cookie, fields)).statusCode).toBe(403)
  })

  it('hashes a password again when its parameters are outdated', async () => {
    const { id, username } = await anAccount(t.db)
    const readHash = async () => (await storedAccount(t.db, { id }))?.passwordHash ?? expect.fail()
    const weak = await hashCheaply(password)
    await setPasswordHash(t.db, operator, id, weak)
    await signIn(t.app, { username })
    expect(costOf(await readHash())).toBe(costOf(await hashPassword(password)))
    await signIn(t.app, { username })
  })

  it('renews the session: the earlier id of the browser no longer works', async () => {
    const account = await anAccount(t.db)
    const before = await signIn(t.app, account)
    const page = await t.app.inject({ url: '/', headers: { cookie: before } })
    const fields = { csrf_token: csrfTokenIn(page), username: account.username, password }
    const after = cookiesOf(await post(t.app, '/login', before, fields))
    expect(after).not.toBe(before)
    expect((await t.app.inject({ url: '/settings/account', headers: { cookie: before } })).statusCode).toBe(
      303,
    )
    expect((await t.app.inject({ url: '/settings/account', headers: { cookie: after } })).statusCode).toBe(
      200,
    )
  })

  it('deletes the cookie of the sign-in form after the sign-in', async () => {
    const { username } = await anAccount(t.db)
    const { cookie, fields } = await anOpenForm(t, username)
    const { cookies } = await post(t.app, '/login', cookie, fields)
    expect(cookies.find(({ name }) => name === 'svc_visit')).toMatchObject({ value: '', maxAge: 0 })
  })

  it('returns to the page that required the sign-in, with its query (OAUTH 1)', async () => {
    const { username } = await anAccount(t.db)
    const wanted = '/settings/tokens?preset=pull&repository=acme%2Fphp'
    const asked = await t.app.inject(wanted)
    expect(asked.statusCode).toBe(303)
    const form = await t.app.inject(String(asked.headers.location))
    const returnId = /name="return" value="([^"]+)"/.exec(form.body)?.[1] as string
    const fields = { csrf_token: csrfTokenIn(form), username, password, return: returnId }
    const wrong = await post(t.app, '/login', cookiesOf(form), { ...fields, password: 'wrong' })
    expect(wrong.body).toContain(returnId)
    const response = await post(t.app, '/login', cookiesOf(form), fields)
    expect(response.headers.location).toBe(wanted)
  })

  it.each(['//evil.example', 'https://evil.example', '/\\evil.example', 'unknown'])(
    'treats a return of %s as an unknown id, and redirects to the home page',
    async (foreign) => {
      const { username } = await anAccount(t.db)
      const { cookie, fields } = await anOpenForm(t, username)
      const response = await post(t.app, '/login', cookie, { ...fields, return: foreign })
      expect(response.headers.location).toBe('/')
    },
  )

  it.each([
    ['a body that is no form', 'application/json', '{"username":"ann"}', 415],
    ['broken percent-encoding', 'application/x-www-form-urlencoded', 'username=%zz', 400],
    ['bytes that are no UTF-8', 'application/x-www-form-urlencoded', 'username=%ff', 400],
    ['NUL', 'application/x-www-form-urlencoded', 'username=a%00b', 400],
    ['a field sent twice', 'application/x-www-form-urlencoded', 'csrf_token=a&csrf_token=b', 400],
    [
      'a body of more than 64 KiB',
      'application/x-www-form-urlencoded',
      `username=${'a'.repeat(70_000)}`,
      413,
    ],
    ['nothing at all', 'application/x-www-form-urlencoded', '', 403],
  ])('returns a page for %s', async (_what, type, payload, status) => {
    const headers = { 'content-type': type }
    const response = await t.app.inject({ method: 'POST', url: '/login', headers, payload })
    expect(response.statusCode).toBe(status)
    expect(response.headers['content-type']).toBe('text/html; charset=utf-8')
    expect(response.headers['content-security-policy']).toBeDefined()
  })
})

describe('the session cookie', () => {
  const t = useApp({ BASE_URL: 'https://svc.test' })

  it('is bound to this host under https', async () => {
    const { username } = await anAccount(t.db)
    const { cookie, fields } = await anOpenForm(t, username)
    const { cookies } = await post(t.app, '/login', cookie, fields)
    expect(cookies.find(({ name }) => name === '__Host-svc_session')).toMatchObject({
      secure: true,
      path: '/',
    })
    expect(cookies.every(({ domain }) => domain === undefined)).toBe(true)
  })
})

describe('a form whose session has ended', () => {
  const t = useApp()

  it.each([
    ['/settings/account/password', '/settings/account/password'],
    ['/settings/tokens/new', '/settings/tokens/new'],
    ['/settings/tokens/revoke', '/settings/tokens'],
    ['/settings/authorizations/withdraw', '/settings/authorizations'],
  ])('that was sent to %s leads through the sign-in back to %s', async (action, page) => {
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const csrf_token = csrfTokenIn(await t.app.inject({ url: '/settings/account', headers: { cookie } }))
    await dropRows(t.db, 'session', { accountId: account.id })
    const asked = await post(t.app, action, cookie, { csrf_token })
    expect(asked.statusCode).toBe(303)
    const form = await t.app.inject({ url: String(asked.headers.location), headers: { cookie } })
    const fields = { csrf_token: csrfTokenIn(form), username: account.username, password }
    const returnId = /name="return" value="([^"]+)"/.exec(form.body)?.[1] ?? ''
    const response = await post(t.app, '/login', cookie, { ...fields, return: returnId })
    expect(response.headers.location).toBe(page)
    expect((await t.app.inject({ url: page, headers: { cookie: cookiesOf(response) } })).statusCode).toBe(200)
  })
})

describe('a sign-in under way', () => {
  const t = useApp()

  it('does not survive a change of the password', async () => {
    const { id, username } = await anAccount(t.db)
    const { cookie, fields } = await anOpenForm(t, username)
    vi.spyOn(argon2, 'verify').mockImplementationOnce(async () => {
      await removePassword(t.db, { id })
      return true
    })
    const response = await post(t.app, '/login', cookie, fields)
    vi.restoreAllMocks()
    expect(response.statusCode).toBe(403)
    expect(response.body).toContain('The account was changed')
    expect(response.cookies.some(({ name }) => name === 'svc_session')).toBe(false)
    expect(await countRows(t.db, 'session', { accountId: id })).toBe(0)
  })
})

describe('the page to return to', () => {
  const t = useApp()

  it.each(['//evil.example', '/\\evil.example', 'https://evil.example', '/\t/evil.example', '/\n', '', 'a'])(
    'is never %j',
    async (path) => {
      expect(await signPage(t.db, path)).toBeNull()
      expect(await signAuthorizationLink(t.db, path)).toBeNull()
    },
  )

  it('is a path of at most 1 KB, or a link to the authorization endpoint of at most 8 KB', async () => {
    const kept = async (id: string | null) => id && (await findReturn(t.db, id))
    const path = (length: number) => '/a?b='.padEnd(length, 'x')
    expect(await kept(await signPage(t.db, path(1024)))).toBe(path(1024))
    expect(await kept(await signPage(t.db, path(1025)))).toBe('/a')
    expect(await signPage(t.db, '/'.padEnd(1025, 'x'))).toBeNull()
    expect(await kept(await signAuthorizationLink(t.db, path(8192)))).toBe(path(8192))
    expect(await signAuthorizationLink(t.db, path(8293))).toBeNull()
  })

  it('survives whatever anybody else opens, because the browser keeps it', async () => {
    const { clientId } = await anApplication(t.db)
    const link = `/oauth2/auth?client_id=${clientId}&response_type=code&state=x`
    const { location } = (await t.app.inject(link)).headers
    for (let n = 0; n < 105; n++) await t.app.inject(`/login?page=/${n}`)
    const { username } = await anAccount(t.db)
    const form = await t.app.inject(String(location))
    const [, returnTo = ''] = /name="return" value="([^"]+)"/.exec(form.body) ?? []
    const fields = { csrf_token: csrfTokenIn(form), username, password, return: returnTo }
    expect((await post(t.app, '/login', cookiesOf(form), fields)).headers.location).toBe(link)
  })

  it('is signed: nobody else can make one, or change it', async () => {
    const signed = (await signPage(t.db, '/settings/tokens')) ?? ''
    const packed = deflateRawSync('/settings/account').toString('base64url')
    expect(await findReturn(t.db, signed)).toBe('/settings/tokens')
    for (const forged of [
      `${signed}A`,
      signed.slice(0, -1),
      `${signed.slice(0, 43)}${packed}`,
      `${'A'.repeat(43)}${packed}`,
      'A'.repeat(43),
      '/settings/tokens',
    ]) {
      expect(await findReturn(t.db, forged)).toBeNull()
      const form = await t.app.inject(`/login?return=${encodeURIComponent(forged)}`)
      const { username } = await anAccount(t.db)
      const fields = { csrf_token: csrfTokenIn(form), username, password, return: forged }
      expect((await post(t.app, '/login', cookiesOf(form), fields)).headers.location).toBe('/')
    }
  })

  it('makes no URL longer than the link, so that proxies which accept the link accept the sign-in', async () => {
    const state = randomBytes(3000).toString('base64url')
    for (const link of [
      `/oauth2/auth?client_id=a&state=${state}`,
      `/oauth2/auth?state=${'%E6%BC%A2'.repeat(800)}`,
    ]) {
      const signed = (await signAuthorizationLink(t.db, link)) ?? ''
      expect(signed.length).toBeLessThan(link.length * 1.05 + 43)
      expect(await findReturn(t.db, signed)).toBe(link)
    }
  })
})

describe('POST /logout', () => {
  const t = useApp()

  it('ends the session and deletes the cookie', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const page = await t.app.inject({ url: '/', headers: { cookie } })
    const response = await post(t.app, '/logout', cookie, { csrf_token: csrfTokenIn(page) })
    expect(response.statusCode).toBe(303)
    expect(response.cookies.find(({ name }) => name === 'svc_session')?.value).toBe('')
    expect((await t.app.inject({ url: '/settings/account', headers: { cookie } })).statusCode).toBe(303)
  })

  it('shows a notice once, on the page after it', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    const page = await t.app.inject({ url: '/', headers: { cookie } })
    const left = await post(t.app, '/logout', cookie, { csrf_token: csrfTokenIn(page) })
    const landed = await t.app.inject({ url: '/', headers: { cookie: cookiesOf(left) } })
    expect(landed.body).toContain('You are signed out.')
    expect(landed.cookies.find(({ name }) => name === 'svc_notice')?.value).toBe('')
    const forged = await t.app.inject({ url: '/', headers: { cookie: `svc_notice=${'x'.repeat(60)}` } })
    expect([forged.statusCode, forged.body.includes('class="notice"')]).toEqual([200, false])
  })

  it('refuses a form without its CSRF token', async () => {
    const cookie = await signIn(t.app, await anAccount(t.db))
    expect((await post(t.app, '/logout', cookie, {})).statusCode).toBe(403)
    expect((await t.app.inject({ url: '/settings/account', headers: { cookie } })).statusCode).toBe(200)
  })
})

/** Returns the algorithm and the cost of a hash. The order of its parameters does not matter. */
function costOf(hash: string | undefined): string {
  const [, algorithm, version, parameters = ''] = String(hash).split('$')
  return [algorithm, version, ...parameters.split(',').sort()].join(' ')
}

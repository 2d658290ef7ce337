import { describe, expect, it } from 'vitest'
import { changeAccount, setDisabled } from '../../../src/accounts/accounts.ts'
import { operator } from '../../../src/domain/principal.ts'
import { makeSecret } from '../../../src/domain/secrets.ts'
import { setApplicationStatus } from '../../../src/oauth/applications.ts'
import { verifyEmail } from '../../support/account-rows.ts'
import { anAccount, aPersonalToken } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import { hideView } from '../../support/broken-schema.ts'
import { basicOf } from '../../support/oauth-actors.ts'
import { endAuthorization } from '../../support/oauth-rows.ts'
import { anAuthorizedApplication, pass } from '../../support/token-client.ts'

describe('GET /api/user', () => {
  const t = useApp()
  const get = (authorization?: string, url = '/api/user') =>
    t.app.inject({ url, headers: authorization === undefined ? {} : { authorization } })

  it.each(['Bearer', 'bearer', 'BEARER', 'Bearer '])(
    'shows the account behind an access token (OAUTH 129, 136): %s',
    async (scheme) => {
      const { tokens, account } = await anAuthorizedApplication(t)
      const { access_token } = await tokens()
      const response = await get(`${scheme} ${access_token}`)
      expect(response.statusCode).toBe(200)
      expect(response.headers['cache-control']).toBe('private, no-store')
      expect(response.json()).toEqual({
        id: Number(account.id),
        username: account.username,
        name: 'Ann',
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      })
    },
  )

  it('shows the account behind a personal access token', async () => {
    const account = await anAccount(t.db)
    const token = await aPersonalToken(t.db, account, { scopes: ['account-profile:rw'] })
    expect((await get(`Bearer ${token}`)).json().username).toBe(account.username)
  })

  it('returns to each of many concurrent requests its own account', async () => {
    const accounts = await Promise.all(Array.from({ length: 40 }, () => anAccount(t.db)))
    const tokens = await Promise.all(
      accounts.map(async (account, i) =>
        i % 3 === 0
          ? makeSecret('personal')
          : aPersonalToken(t.db, account, { scopes: ['account-profile:r'] }),
      ),
    )
    const responses = await Promise.all(tokens.map((token) => get(`Bearer ${token}`)))
    expect(responses.map((response) => response.json().username)).toEqual(
      accounts.map(({ username }, i) => (i % 3 === 0 ? undefined : username)),
    )
  })

  it.each([undefined, basicOf('svc', 'x'), 'Bearerx y'])(
    'asks for credentials without an error attribute when there are none (OAUTH 130): %s',
    async (authorization) => {
      const response = await get(authorization)
      expect(response.statusCode).toBe(401)
      expect(response.headers['www-authenticate']).toMatch(/^Bearer realm="svc", scope=/)
      expect(response.json()).toEqual({ errcode: 16, errmsg: 'not authorized' })
    },
  )

  it('refuses tokens that are unknown, expired, or of another kind (OAUTH 111, 131)', async () => {
    const { tokens, newCode } = await anAuthorizedApplication(t)
    const pair = await tokens()
    const live = await get(`Bearer ${pair.access_token}`)
    expect(live.statusCode).toBe(200)
    await pass(t.db, 28_800)
    const wrong = [
      pair.access_token,
      pair.refresh_token,
      await newCode(),
      'x',
      makeSecret('access'),
      makeSecret('personal'),
    ]
    for (const token of wrong) {
      const response = await get(`Bearer ${token}`)
      expect(response.statusCode).toBe(401)
      expect(response.headers['www-authenticate']).toContain(
        'Bearer realm="svc", error="invalid_token", error_description="The access token is not valid"',
      )
      expect(response.json()).toEqual({ errcode: 16, errmsg: 'not authorized' })
    }
  })

  it('refuses the tokens of suspended applications, ended authorizations and disabled accounts (OAUTH 131)', async () => {
    const { tokens, application, account } = await anAuthorizedApplication(t)
    const { access_token } = await tokens()
    const personal = await aPersonalToken(t.db, account, { scopes: ['account-profile:r'] })
    const status = async (token = access_token) => (await get(`Bearer ${token}`)).statusCode
    await setApplicationStatus(t.db, application.clientId, 'suspended')
    expect(await status()).toBe(401)
    await setApplicationStatus(t.db, application.clientId, 'approved')
    // The suspension ended the authorization for good.
    expect(await status()).toBe(401)
    const other = await anAuthorizedApplication(t)
    const { access_token: second } = await other.tokens()
    expect(await status(second)).toBe(200)
    await endAuthorization(t.db, other.authorization)
    expect(await status(second)).toBe(401)
    expect(await status(personal)).toBe(200)
    await setDisabled(t.db, operator, account.id, true)
    expect(await status(personal)).toBe(401)
  })

  it('names the scope that is missing (OAUTH 132)', async () => {
    const { tokens } = await anAuthorizedApplication(t, { scopes: ['registry-package:rw'] })
    const response = await get(`Bearer ${(await tokens()).access_token}`)
    expect(response.statusCode).toBe(403)
    expect(response.headers['www-authenticate']).toContain(
      'Bearer realm="svc", error="insufficient_scope", scope="account-profile:r"',
    )
    expect(response.json()).toEqual({ errcode: 7, errmsg: 'the scope account-profile:r is required' })
  })

  it.each(['Bearer', 'Bearer ', 'Bearer a b', 'Bearer é', 'Bearer "x"'])(
    'refuses a malformed header (OAUTH 133): %s',
    async (authorization) => {
      const response = await get(authorization)
      expect(response.statusCode).toBe(400)
      expect(response.headers['www-authenticate']).toContain('error="invalid_request"')
      expect(response.json().errcode).toBe(3)
    },
  )

  it('refuses two tokens at once (OAUTH 133), and takes none from the query (OAUTH 134)', async () => {
    const { tokens } = await anAuthorizedApplication(t)
    const { access_token } = await tokens()
    const url = `/api/user?access_token=${access_token}`
    expect((await get(`Bearer ${access_token}`, url)).statusCode).toBe(400)
    const response = await get(undefined, url)
    expect(response.statusCode).toBe(401)
    expect(response.headers['www-authenticate']).toMatch(/^Bearer realm="svc", scope=/)
  })
})

describe('PATCH /api/user', () => {
  const t = useApp()

  it.each([
    ['malformed JSON', 'application/json', '{'],
    ['a form', 'application/x-www-form-urlencoded', 'name=x'],
    ['too many bytes', 'application/json', JSON.stringify({ name: 'x'.repeat(100_000) })],
  ])('requires credentials before it reads the body: %s', async (_what, type, payload) => {
    const response = await t.app.inject({
      method: 'PATCH',
      url: '/api/user',
      headers: { 'content-type': type },
      payload,
    })
    expect(response.statusCode).toBe(401)
    expect(response.headers['www-authenticate']).toMatch(/^Bearer realm="svc", scope=/)
    expect(response.json()).toEqual({ errcode: 16, errmsg: 'not authorized' })
  })

  async function anEditor(scopes = ['account-profile:rw']) {
    const account = await anAccount(t.db, { displayName: 'Before' })
    const token = await aPersonalToken(t.db, account, { scopes })
    const patch = (payload: string | object, headers: Record<string, string> = {}) =>
      t.app.inject({
        method: 'PATCH',
        url: '/api/user',
        payload,
        headers: { authorization: `Bearer ${token}`, ...headers },
      })
    return { account, patch }
  }

  it('sets the display name', async () => {
    const { patch, account } = await anEditor()
    const response = await patch({ name: '  Zoë 🦊  ' })
    expect(response.statusCode).toBe(200)
    expect(response.json()).toMatchObject({ username: account.username, name: 'Zoë 🦊' })
  })

  it('requires the read-write scope', async () => {
    const { patch } = await anEditor(['account-profile:r'])
    const response = await patch({ name: 'x' })
    expect(response.statusCode).toBe(403)
    expect(response.headers['www-authenticate']).toContain('scope="account-profile:rw"')
  })

  it.each([
    ['no name', {}],
    ['a number', { name: 1 }],
    ['null', { name: null }],
    ['too long', { name: 'é'.repeat(101) }],
    ['a NUL', { name: 'a\0b' }],
    ['a line break', { name: 'a\nb' }],
    ['half a character', '{"name":"\\ud800"}'],
    ['a list', []],
    ['no JSON', '{'],
    ['nothing', ''],
    ['a poisoned prototype', '{"__proto__":{"name":"x"}}'],
  ])('refuses %s', async (_what, payload) => {
    const { patch } = await anEditor()
    const response = await patch(payload, { 'content-type': 'application/json' })
    expect(response.statusCode).toBe(400)
    expect(response.json()).toEqual({ errcode: 3, errmsg: expect.any(String) })
  })

  it('refuses other content types and huge bodies in the API’s error format', async () => {
    const { patch } = await anEditor()
    const form = await patch('name=x', { 'content-type': 'application/x-www-form-urlencoded' })
    expect([form.statusCode, form.json().errcode]).toEqual([415, 3])
    const huge = await patch({ name: 'x'.repeat(70_000) })
    expect([huge.statusCode, huge.json().errcode]).toEqual([413, 8])
  })
})

describe('GET /api/user/emails', () => {
  const t = useApp()
  const get = (token: string) =>
    t.app.inject({ url: '/api/user/emails', headers: { authorization: `Bearer ${token}` } })

  it('shows the email as primary and not verified', async () => {
    const account = await anAccount(t.db, { email: 'ann@example.com' })
    const token = await aPersonalToken(t.db, account, { scopes: ['account-email:r'] })
    expect((await get(token)).json()).toEqual([{ email: 'ann@example.com', primary: true, verified: false }])
  })

  it('shows it as verified once somebody has verified it, until it changes', async () => {
    const account = await anAccount(t.db, { email: 'bea@example.com' })
    const token = await aPersonalToken(t.db, account, { scopes: ['account-email:r'] })
    await verifyEmail(t.db, account)
    expect((await get(token)).json()).toEqual([{ email: 'bea@example.com', primary: true, verified: true }])
    await changeAccount(t.db, operator, account.id, { email: 'cleo@example.com' })
    expect((await get(token)).json()).toEqual([{ email: 'cleo@example.com', primary: true, verified: false }])
  })

  it('shows an empty list when the account has none', async () => {
    const token = await aPersonalToken(t.db, await anAccount(t.db), { scopes: ['account-email:rw'] })
    expect((await get(token)).json()).toEqual([])
  })

  it('requires its own scope', async () => {
    const token = await aPersonalToken(t.db, await anAccount(t.db), { scopes: ['account-profile:rw'] })
    const response = await get(token)
    expect(response.statusCode).toBe(403)
    expect(response.json().errmsg).toBe('the scope account-email:r is required')
  })
})

describe('the API', () => {
  const t = useApp()

  it.each(['/api', '/api/', '/api/nothing', '/api/user/', '/api/groups/x/y', '/api/%zz'])(
    'responds to %s with an error in JSON',
    async (url) => {
      const response = await t.app.inject(url)
      expect([400, 404]).toContain(response.statusCode)
      expect(response.json()).toEqual({
        errcode: response.statusCode === 404 ? 5 : 3,
        errmsg: expect.any(String),
      })
    },
  )

  it('respond to other methods with 405 and Allow', async () => {
    for (const [url, allow] of [
      ['/api/user', 'GET, HEAD, PATCH'],
      ['/api/user/emails', 'GET, HEAD'],
    ] as const) {
      const response = await t.app.inject({ method: 'DELETE', url })
      expect(response.statusCode).toBe(405)
      expect(response.headers['allow']).toBe(allow)
      expect(response.json().errcode).toBe(12)
    }
  })

  it('report an error of the server without detail', async () => {
    const token = await aPersonalToken(t.db, await anAccount(t.db), { scopes: ['account-profile:rw'] })
    await hideView(t.db, 'live_token')
    const response = await t.app.inject({ url: '/api/user', headers: { authorization: `Bearer ${token}` } })
    expect(response.statusCode).toBe(500)
    expect(response.json()).toEqual({ errcode: 13, errmsg: 'internal error' })
  })
})

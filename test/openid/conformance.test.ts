import { decodeProtectedHeader } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, responseOf } from '../support/browse.ts'
import { setRedemptionAge } from '../support/oauth-rows.ts'
import { aRelyingParty, askUserinfo, readIdToken } from '../support/openid-actors.ts'
import { ask, postForm } from '../support/token-client.ts'

const t = useApp()

/** Modules of the suite of the OpenID Foundation, under their names (`conformance/README.md`). All share one server. */
describe('the plan oidcc-basic-certification-test-plan', () => {
  let party: Awaited<ReturnType<typeof aRelyingParty>>
  beforeAll(async () => {
    const account = { displayName: 'Ann', email: 'ann@example.com' }
    party = await aRelyingParty(t, {
      account,
      application: { postLogoutRedirectUri: 'https://app.example.com/bye' },
    })
  })
  const read = async (parameters: Record<string, string | null> = {}) =>
    readIdToken(t, party.application, (await party.enter(parameters)).id_token)
  const askAs = async (parameters: Record<string, string | null>) =>
    responseOf(await open(t, party.link(parameters), party.cookie))
  const userinfo = async (scope: string) =>
    (await askUserinfo(t, (await party.enter({ scope })).access_token)).json<Record<string, unknown>>()

  it('oidcc-server', async () => {
    const redirect = await party.authorize({ state: 's', nonce: 'n' })
    expect(responseOf(redirect)).toMatchObject({ code: expect.any(String), state: 's' })
  })

  it('oidcc-response-type-missing', async () => {
    expect(await askAs({ response_type: null, state: 's' })).toMatchObject({
      error: 'invalid_request',
      state: 's',
    })
  })

  it('oidcc-idtoken-signature', async () => {
    const { id_token } = await party.enter()
    expect(decodeProtectedHeader(id_token ?? '')).toMatchObject({ alg: 'RS256', kid: expect.any(String) })
    await readIdToken(t, party.application, id_token)
  })

  it('oidcc-userinfo-get, oidcc-userinfo-post-header and oidcc-userinfo-post-body', async () => {
    const { access_token } = await party.enter()
    const headers = { authorization: `Bearer ${access_token}` }
    const url = '/oauth2/userinfo'
    const answers = [
      await t.app.inject({ url, headers }),
      await t.app.inject({ method: 'POST', url, headers }),
      await postForm(t, url, `access_token=${access_token}`),
    ]
    for (const answer of answers) expect(answer.json()).toMatchObject({ sub: party.account.id })
  })

  it('oidcc-ensure-request-without-nonce-succeeds-for-code-flow', async () => {
    expect(await read()).not.toHaveProperty('nonce')
  })

  it('oidcc-scope-profile, oidcc-scope-email and oidcc-scope-all', async () => {
    expect(await userinfo('openid profile')).toMatchObject({
      name: 'Ann',
      preferred_username: expect.any(String),
    })
    expect(await userinfo('openid email')).toMatchObject({ email: 'ann@example.com', email_verified: false })
    expect(Object.keys(await userinfo('openid profile email'))).toHaveLength(5)
  })

  it('oidcc-ensure-other-scope-order-succeeds', async () => {
    expect(await read({ scope: 'email openid' })).toMatchObject({ sub: party.account.id })
  })

  it('oidcc-display-page, oidcc-display-popup, oidcc-ui-locales and oidcc-claims-locales', async () => {
    const ignored = [
      { display: 'page' },
      { display: 'popup' },
      { ui_locales: 'se' },
      { claims_locales: 'se' },
    ]
    for (const parameters of ignored) expect(await read(parameters)).toMatchObject({ sub: party.account.id })
  })

  it('oidcc-prompt-none-not-logged-in and oidcc-prompt-none-logged-in', async () => {
    const link = party.link({ prompt: 'none' })
    expect(responseOf(await open(t, link))).toMatchObject({ error: 'login_required' })
    await party.enter()
    expect(responseOf(await open(t, link, party.cookie))).toMatchObject({ code: expect.any(String) })
  })

  it('oidcc-prompt-login and oidcc-max-age-1', async () => {
    for (const parameters of [{ prompt: 'login' }, { max_age: '0' }]) {
      const page = await open(t, party.link(parameters), party.cookie)
      expect(page.headers.location).toMatch(/^\/settings\/confirm-access/)
    }
  })

  it('oidcc-max-age-10000', async () => {
    const first = await read({ max_age: '10000' })
    expect((await read({ max_age: '10000' }))['auth_time']).toBe(first['auth_time'])
  })

  it('oidcc-id-token-hint and oidcc-login-hint', async () => {
    const { id_token } = await party.enter()
    const hinted = await askAs({ prompt: 'none', id_token_hint: id_token ?? '' })
    expect(hinted).toMatchObject({ code: expect.any(String) })
    expect(await read({ login_hint: 'somebody' })).toMatchObject({ sub: party.account.id })
  })

  it('oidcc-ensure-request-with-unknown-parameter-succeeds', async () => {
    expect(await read({ extra: 'foobar' })).toMatchObject({ sub: party.account.id })
  })

  it('oidcc-ensure-request-with-acr-values-succeeds and oidcc-claims-essential', async () => {
    expect(await read({ acr_values: '1 2' })).toMatchObject({ acr: '1' })
    const claims = JSON.stringify({ userinfo: { name: { essential: true } } })
    const { access_token } = await party.enter({ scope: 'openid', claims })
    expect((await askUserinfo(t, access_token)).json()).toMatchObject({ name: 'Ann' })
  })

  it('oidcc-codereuse and oidcc-codereuse-30seconds', async () => {
    const code = responseOf(await party.authorize())['code'] ?? ''
    const { access_token } = (await party.exchange(code)).json<TokenResponse>()
    expect((await party.exchange(code)).json()).toMatchObject({ error: 'invalid_grant' })
    await setRedemptionAge(t.db, '31 seconds')
    expect((await party.exchange(code)).json()).toMatchObject({ error: 'invalid_grant' })
    expect((await askUserinfo(t, access_token)).statusCode).toBe(401)
  })

  it('oidcc-ensure-registered-redirect-uri', async () => {
    const page = await open(
      t,
      authorizeLink(party.application, { redirect_uri: 'https://other.example.com/' }),
    )
    expect([page.statusCode, page.headers.location]).toEqual([400, undefined])
  })

  it('oidcc-ensure-post-request-succeeds', async () => {
    const { search } = new URL(party.link({ state: 's' }), 'http://svc.test')
    const posted = await postForm(t, '/oauth2/auth', search.slice(1), { origin: 'https://app.example.com' })
    expect([posted.statusCode, posted.headers.location]).toEqual([303, expect.stringContaining('state=s')])
  })

  it('oidcc-server-client-secret-post and oidcc-refresh-token', async () => {
    const code = responseOf(await party.authorize())['code'] ?? ''
    const { clientId: client_id, clientSecret: client_secret } = party.application
    const form = { grant_type: 'authorization_code', code, client_id, client_secret }
    const tokens = (
      await postForm(t, '/oauth2/token', new URLSearchParams(form).toString())
    ).json<TokenResponse>()
    const { refresh_token } = tokens
    const refreshed = await ask(t, party.application, 'token', { grant_type: 'refresh_token', refresh_token })
    expect(refreshed.json()).toMatchObject({ id_token: expect.any(String) })
  })

  it('oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported', async () => {
    expect(await askAs({ request: 'e30.e30.' })).toMatchObject({ error: 'request_not_supported' })
  })

  it('oidcc-ensure-request-with-valid-pkce-succeeds', async () => {
    const pkce = {
      code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
      code_challenge_method: 'S256',
    }
    const code = responseOf(await party.authorize(pkce))['code'] ?? ''
    const verifier = { code_verifier: 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk' }
    expect((await party.exchange(code, verifier)).json()).toMatchObject({ id_token: expect.any(String) })
  })

  it('oidcc-discovery-endpoint-verification and oidcc-rp-initiated-logout-discovery-endpoint-verification', async () => {
    const { issuer, jwks_uri, end_session_endpoint } = (
      await t.app.inject('/.well-known/openid-configuration')
    ).json<Record<string, string>>()
    expect([issuer, jwks_uri, end_session_endpoint]).toEqual([
      'http://svc.test',
      'http://svc.test/oauth2/jwks',
      'http://svc.test/oauth2/logout',
    ])
  })
})

import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LightMyRequestResponse } from 'fastify'
import { decodeProtectedHeader, type JSONWebKeySet, SignJWT } from 'jose'
import { beforeAll, describe, expect, it } from 'vitest'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { cookiesOf, csrfTokenIn, post, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { open, responseOf } from '../support/browse.ts'
import { setRedemptionAge } from '../support/oauth-rows.ts'
import { aRelyingParty, askUserinfo, confirmAccess, readIdToken, signInAt } from '../support/openid-actors.ts'
import { setProofAges } from '../support/session-rows.ts'
import { postForm } from '../support/token-client.ts'

// The modules of three plans of the suite of the OpenID Foundation, each under its name (`conformance/README.md`). They send the
// requests of the suite, and make its checks.

const t = useApp()

const callback = 'https://app.example.com/test/a/svc/callback'
const goodbye = 'https://app.example.com/test/a/svc/post_logout_redirect'

type Party = Awaited<ReturnType<typeof aRelyingParty>>
type Sent = Record<string, string | null>

let party: Party
beforeAll(async () => {
  const account = { displayName: 'Ann', email: 'ann@example.com' }
  const application = { redirectUri: callback, postLogoutRedirectUri: goodbye }
  party = await aRelyingParty(t, { account, application })
})

let requests = 0
/** Returns the parameters of every module, with a new nonce, and a state that is as long as the longest of the suite. */
function parametersOf(differences: Sent): Sent {
  requests += 1
  const state = `state-${requests}-`.padEnd(128, 'x')
  return { redirect_uri: callback, scope: 'openid', state, nonce: `nonce-${requests}`, ...differences }
}

/** Returns the error that the application gets, after the checks of every module. */
function errorOf(redirect: LightMyRequestResponse, { state }: Sent): string {
  const { error = '', ...more } = responseOf(redirect)
  expect(more).toEqual({
    // The characters of RFC 6749 §4.1.2.1.
    error_description: expect.stringMatching(/^[ !#-[\]-~]+$/),
    ...(state && { state }),
    iss: 'http://svc.test',
  })
  return error
}

/** Sends a request of the browser that is signed in, which gets an error. */
async function refusalOf(differences: Sent): Promise<string> {
  const sent = parametersOf(differences)
  return errorOf(await open(t, party.link(sent), party.cookie), sent)
}

/** Returns the claims of an ID token, after the checks of every module. */
async function checkIdToken(
  { id_token, access_token }: TokenResponse,
  nonce: string | null,
  { application }: Pick<Party, 'application'> = party,
) {
  const claims = await readIdToken(t, application, id_token)
  const now = Date.now() / 1000
  expect(claims).toMatchObject({
    sub: expect.stringMatching(/^[!-~]{1,255}$/),
    iat: expect.closeTo(now, -2),
    exp: expect.any(Number),
    auth_time: expect.any(Number),
    at_hash: createHash('sha256').update(access_token).digest().subarray(0, 16).toString('base64url'),
  })
  expect(claims['nonce']).toBe(nonce ?? undefined)
  // Nothing about the person that only a scope gives: that is at the userinfo endpoint (OpenID Connect Core §5.4).
  const usual = ['iss', 'sub', 'aud', 'exp', 'iat', 'auth_time', 'nonce', 'at_hash', 'sid', 'acr', 'amr']
  expect(Object.keys(claims).filter((name) => !usual.includes(name))).toEqual([])
  return claims
}

/** Returns the tokens of a response, after the checks of every module. */
function tokensOf(response: LightMyRequestResponse): TokenResponse {
  expect([response.statusCode, response.headers['cache-control']]).toEqual([200, 'no-store'])
  expect(response.headers['content-type']).toMatch(/^application\/json/)
  const tokens = response.json<TokenResponse>()
  expect(tokens).toMatchObject({
    access_token: expect.stringMatching(/^[!-~]{22,}$/),
    refresh_token: expect.stringMatching(/^[!-~]{22,}$/),
    expires_in: expect.any(Number),
  })
  expect(tokens.token_type.toLowerCase()).toBe('bearer')
  return tokens
}

/** Returns the claims at the userinfo endpoint. */
async function userinfoOf({ access_token }: TokenResponse): Promise<Record<string, unknown>> {
  const response = await askUserinfo(t, access_token)
  expect([response.statusCode, response.headers['content-type']]).toEqual([
    200,
    expect.stringMatching(/^application\/json/),
  ])
  return response.json()
}

/** Completes an authorization from its response to the userinfo endpoint, with the checks of every module. */
async function complete(
  redirect: LightMyRequestResponse,
  sent: Sent,
  exchange = (code: string) => party.exchange(code, { redirect_uri: callback }),
  by = party,
) {
  const response = responseOf(redirect)
  expect(response).toEqual({
    // 128 bits at least.
    code: expect.stringMatching(/^[!-~]{22,}$/),
    ...(sent['state'] && { state: sent['state'] }),
    iss: 'http://svc.test',
  })
  const code = response['code'] ?? ''
  const tokens = tokensOf(await exchange(code))
  const claims = await checkIdToken(tokens, sent['nonce'] ?? null, by)
  const userinfo = await userinfoOf(tokens)
  expect(userinfo['sub']).toBe(claims.sub)
  return { code, tokens, claims, userinfo }
}

/** Authorizes the application, and completes it. */
async function run(differences: Sent = {}, cookie = party.cookie) {
  const sent = parametersOf(differences)
  return complete(await party.authorize(sent, cookie), sent)
}

/** Sends a request that asks for a proof of identity, gives it, and completes the authorization. */
async function runWithProof(differences: Sent) {
  const sent = parametersOf(differences)
  const asked = await open(t, party.link(sent), party.cookie)
  expect(asked.headers.location).toMatch(/^\/settings\/confirm-access/)
  const proved = await confirmAccess(t, String(asked.headers.location), party.cookie)
  return complete(await open(t, String(proved.headers.location), party.cookie), sent)
}

/** Sends a request for which the application gets nothing: svc shows a page with an error. */
async function expectPage(differences: Sent): Promise<void> {
  const sent = parametersOf(differences)
  for (const cookie of ['', party.cookie]) {
    const page = await open(t, party.link(sent), cookie)
    expect([page.statusCode, page.headers.location]).toEqual([400, undefined])
    expect(page.body).toContain('redirect_uri')
  }
}

const metadataOf = async () =>
  (await t.app.inject('/.well-known/openid-configuration')).json<Record<string, unknown>>()

describe('the plan oidcc-basic-certification-test-plan', () => {
  it('oidcc-server', async () => {
    await run()
  })

  it('oidcc-response-type-missing', async () => {
    expect(await refusalOf({ response_type: null })).toBe('invalid_request')
  })

  it('oidcc-idtoken-signature', async () => {
    const { tokens } = await run()
    expect(decodeProtectedHeader(tokens.id_token ?? '')).toMatchObject({
      alg: 'RS256',
      kid: expect.any(String),
    })
  })

  // The suite skips it for a server that does not offer tokens without a signature.
  it('oidcc-idtoken-unsigned', async () => {
    expect((await metadataOf())['id_token_signing_alg_values_supported']).not.toContain('none')
  })

  describe('of the userinfo endpoint', () => {
    const url = '/oauth2/userinfo'
    let token: string
    beforeAll(async () => {
      token = (await run({ scope: 'openid profile email' })).tokens.access_token
    })
    const check = (response: LightMyRequestResponse) => {
      expect([response.statusCode, response.headers['content-type']]).toEqual([
        200,
        expect.stringMatching(/^application\/json/),
      ])
      expect(response.json()).toEqual({
        sub: party.account.id,
        name: 'Ann',
        preferred_username: party.account.username,
        email: 'ann@example.com',
        email_verified: false,
      })
    }

    it('oidcc-userinfo-get', async () => {
      check(await t.app.inject({ url, headers: { authorization: `Bearer ${token}` } }))
    })

    it('oidcc-userinfo-post-header', async () => {
      check(await t.app.inject({ method: 'POST', url, headers: { authorization: `Bearer ${token}` } }))
    })

    it('oidcc-userinfo-post-body', async () => {
      check(await postForm(t, url, `access_token=${token}`))
    })
  })

  it('oidcc-ensure-request-without-nonce-succeeds-for-code-flow', async () => {
    await run({ nonce: null })
  })

  it('oidcc-scope-profile', async () => {
    const { userinfo } = await run({ scope: 'openid profile' })
    expect(userinfo).toEqual({
      sub: party.account.id,
      name: 'Ann',
      preferred_username: party.account.username,
    })
  })

  const withEmail = { email: 'ann@example.com', email_verified: false }

  it('oidcc-scope-email', async () => {
    const { userinfo } = await run({ scope: 'openid email' })
    expect(userinfo).toEqual({ sub: party.account.id, ...withEmail })
  })

  // The suite skips these for a server that does not offer all their scopes. svc knows no phone numbers and addresses.
  it.each([
    ['oidcc-scope-address', ['address']],
    ['oidcc-scope-phone', ['phone']],
    ['oidcc-scope-all', ['address', 'phone', 'email', 'profile']],
  ])('%s', async (_module, scopes) => {
    const offered = (await metadataOf())['scopes_supported'] as string[]
    expect(scopes.every((scope) => offered.includes(scope))).toBe(false)
    expect(await refusalOf({ scope: ['openid', ...scopes].join(' ') })).toBe('invalid_scope')
  })

  it('oidcc-alternate-happy-flow', async () => {
    await run({ scope: 'openid email' })
    const sent = parametersOf({ scope: 'email openid' })
    const pairs = [...new URL(party.link(sent), 'http://svc.test').searchParams]
    const reordered = `/oauth2/auth?${new URLSearchParams(pairs.toReversed())}`
    const { userinfo } = await complete(await open(t, reordered, party.cookie), sent)
    expect(userinfo).toEqual({ sub: party.account.id, ...withEmail })
  })

  it('oidcc-display-page', async () => {
    await run({ display: 'page' })
  })

  it('oidcc-display-popup', async () => {
    await run({ display: 'popup' })
  })

  it('oidcc-prompt-login', async () => {
    await setProofAges(t.db, '5 seconds')
    const { claims } = await run()
    const again = await runWithProof({ prompt: 'login' })
    expect(Number(again.claims['auth_time'])).toBeGreaterThan(Number(claims['auth_time']))
    expect(again.claims.sub).toBe(claims.sub)
  })

  it('oidcc-prompt-none-not-logged-in', async () => {
    const sent = parametersOf({ prompt: 'none' })
    expect(errorOf(await open(t, party.link(sent)), sent)).toBe('login_required')
  })

  it('oidcc-prompt-none-logged-in', async () => {
    const { claims } = await run()
    const again = await run({ prompt: 'none' })
    expect(again.claims).toMatchObject({ sub: claims.sub, auth_time: claims['auth_time'] })
  })

  it('oidcc-max-age-1', async () => {
    await setProofAges(t.db, '5 seconds')
    const { claims } = await run()
    const again = await runWithProof({ max_age: '1' })
    expect(Number(again.claims['auth_time'])).toBeGreaterThan(Number(claims['auth_time']))
  })

  it('oidcc-max-age-10000', async () => {
    const { claims } = await run({ max_age: '15000' })
    const again = await run({ max_age: '10000' })
    expect(again.claims).toMatchObject({ sub: claims.sub, auth_time: claims['auth_time'] })
  })

  it('oidcc-ensure-request-with-unknown-parameter-succeeds', async () => {
    await run({ extra: 'foobar' })
  })

  it('oidcc-id-token-hint', async () => {
    const { claims, tokens } = await run()
    const again = await run({ prompt: 'none', id_token_hint: tokens.id_token ?? '' })
    expect(again.claims).toMatchObject({ sub: claims.sub, auth_time: claims['auth_time'] })
  })

  it('oidcc-login-hint', async () => {
    await run()
    const sent = parametersOf({ login_hint: 'buffy@svc.test' })
    const { form, cookie, location } = await signInAt(t, party.link(sent), party.account)
    expect(form.body).toContain('name="username" value="buffy@svc.test"')
    await complete(await open(t, location, cookie), sent)
  })

  it('oidcc-ui-locales', async () => {
    await run({ ui_locales: 'se' })
  })

  it('oidcc-claims-locales', async () => {
    await run({ claims_locales: 'se' })
  })

  it('oidcc-ensure-request-with-acr-values-succeeds', async () => {
    const offered = (await metadataOf())['acr_values_supported'] as string[]
    const { claims } = await run({ acr_values: offered.join(' ') })
    expect(offered).toContain(claims['acr'])
  })

  it('oidcc-codereuse', async () => {
    const { code } = await run()
    const again = await party.exchange(code, { redirect_uri: callback })
    expect([again.statusCode, again.json()]).toMatchObject([400, { error: 'invalid_grant' }])
  })

  it('oidcc-codereuse-30seconds', async () => {
    const { code, tokens } = await run()
    await setRedemptionAge(t.db, '31 seconds')
    const again = await party.exchange(code, { redirect_uri: callback })
    expect([again.statusCode, again.json()]).toMatchObject([400, { error: 'invalid_grant' }])
    expect((await askUserinfo(t, tokens.access_token)).statusCode).toBe(401)
  })

  it('oidcc-ensure-registered-redirect-uri', async () => {
    await expectPage({ redirect_uri: `${callback}/Fv2mLq8Zt1` })
  })

  it('oidcc-ensure-post-request-succeeds', async () => {
    await run()
    const sent = parametersOf({})
    const { search } = new URL(party.link(sent), 'http://svc.test')
    // A browser sends no cookies with the POST of another site.
    const posted = await postForm(t, '/oauth2/auth', search.slice(1), { origin: 'https://app.example.com' })
    expect(posted.statusCode).toBe(303)
    await complete(await open(t, String(posted.headers.location), party.cookie), sent)
  })

  it('oidcc-server-client-secret-post', async () => {
    const { clientId: client_id, clientSecret: client_secret } = party.application
    const sent = parametersOf({})
    await complete(await party.authorize(sent), sent, (code) => {
      const form = {
        grant_type: 'authorization_code',
        redirect_uri: callback,
        code,
        client_id,
        client_secret,
      }
      return postForm(t, '/oauth2/token', new URLSearchParams(form).toString())
    })
  })

  it('oidcc-request-uri-unsigned-supported-correctly-or-rejected-as-unsupported', async () => {
    const request_uri = 'https://app.example.com/test/a/svc/requesturi/1#fragment'
    expect(await refusalOf({ state: null, nonce: null, request_uri })).toBe('request_uri_not_supported')
  })

  /** An unsigned request object with the parameters of a request. */
  function requestObject(claims: Sent): string {
    const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
    return `${encode({ alg: 'none' })}.${encode({ ...claims, client_id: party.application.clientId })}.`
  }

  it('oidcc-unsigned-request-object-supported-correctly-or-rejected-as-unsupported', async () => {
    const request = requestObject(parametersOf({ response_type: 'code' }))
    expect(await refusalOf({ state: null, nonce: null, request })).toBe('request_not_supported')
  })

  it('oidcc-claims-essential', async () => {
    const claims = JSON.stringify({ userinfo: { name: { essential: true } } })
    expect((await run({ claims })).userinfo).toMatchObject({ name: 'Ann' })
  })

  it('oidcc-ensure-request-object-with-redirect-uri', async () => {
    const request = requestObject(parametersOf({ response_type: 'code' }))
    await expectPage({ redirect_uri: `${callback}_invalid`, request })
  })

  it('oidcc-refresh-token', async () => {
    const other = await aRelyingParty(t, { application: { redirectUri: callback } })
    const ofOther = parametersOf({})
    const foreign = await complete(
      await other.authorize(ofOther),
      ofOther,
      (code) => other.exchange(code, { redirect_uri: callback }),
      other,
    )
    const first = await run()
    expect((await metadataOf())['grant_types_supported']).toContain('refresh_token')
    // So that `iat` differs.
    await sleep(1000)
    const refreshed = tokensOf(await party.refresh(first.tokens.refresh_token, { scope: 'openid' }))
    const claims = await checkIdToken(refreshed, null)
    const { iss, sub, aud, auth_time } = first.claims
    expect(claims).toMatchObject({ iss, sub, aud, auth_time })
    expect(claims.iat).toBeGreaterThan(Number(first.claims.iat))
    expect((await userinfoOf(refreshed))['sub']).toBe(sub)
    const stolen = await party.refresh(foreign.tokens.refresh_token)
    expect([stolen.statusCode, stolen.json()]).toMatchObject([400, { error: 'invalid_grant' }])
  })

  it('oidcc-ensure-request-with-valid-pkce-succeeds', async () => {
    const sent = parametersOf({
      code_challenge: 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM',
      code_challenge_method: 'S256',
    })
    const code_verifier = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
    await complete(await party.authorize(sent), sent, (code) =>
      party.exchange(code, { redirect_uri: callback, code_verifier }),
    )
  })
})

describe('the plan oidcc-config-certification-test-plan', () => {
  const published = useApp({ BASE_URL: 'https://svc.test' })

  it('oidcc-discovery-endpoint-verification', async () => {
    const response = await published.app.inject('/.well-known/openid-configuration')
    expect([response.statusCode, response.headers['content-type']]).toEqual([
      200,
      expect.stringMatching(/^application\/json/),
    ])
    const metadata = response.json<Record<string, unknown>>()
    expect(metadata).toMatchObject({
      issuer: 'https://svc.test',
      response_types_supported: expect.arrayContaining(['code']),
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: expect.arrayContaining(['RS256']),
      claims_supported: expect.arrayContaining(['sub']),
      grant_types_supported: expect.arrayContaining(['authorization_code']),
      scopes_supported: expect.arrayContaining(['openid']),
      code_challenge_methods_supported: ['S256'],
      token_endpoint_auth_methods_supported: expect.arrayContaining([
        'client_secret_basic',
        'client_secret_post',
      ]),
      claims_parameter_supported: true,
      request_parameter_supported: false,
      request_uri_parameter_supported: false,
      authorization_endpoint: expect.any(String),
      token_endpoint: expect.any(String),
      userinfo_endpoint: expect.any(String),
      jwks_uri: expect.any(String),
    })
    for (const [name, value] of Object.entries(metadata)) {
      if (/_(?:endpoint|uri|documentation)$/.test(name))
        expect([name, value]).toEqual([name, expect.stringMatching(/^https:\/\/svc\.test\//)])
      else if (Array.isArray(value))
        expect([name, value.every((item) => /^[!#-[\]-~]+$/.test(item))]).toEqual([name, true])
    }
    const path = String(metadata['jwks_uri']).replace('https://svc.test', '')
    const { keys } = (await published.app.inject(path)).json<JSONWebKeySet>()
    expect(new Set(keys.map(({ kid }) => kid)).size).toBe(keys.length)
    const secrets = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k']
    for (const key of keys) {
      expect(key).toMatchObject({ kid: expect.any(String), use: 'sig' })
      expect(Object.keys(key).filter((name) => secrets.includes(name))).toEqual([])
    }
  })
})

describe('the plan oidcc-rp-initiated-logout-certification-test-plan', () => {
  it('oidcc-rp-initiated-logout-discovery-endpoint-verification', async () => {
    expect((await metadataOf())['end_session_endpoint']).toBe('http://svc.test/oauth2/logout')
  })

  /** Signs the person in with a new browser, and signs out there with the parameters of a module. */
  async function signOut(differences: Sent | ((idToken: string) => Sent | Promise<Sent>)) {
    const cookie = await signIn(t.app, party.account)
    const { id_token = '' } = (await run({}, cookie)).tokens
    const state = 'end-'.padEnd(128, 'y')
    const usual = { id_token_hint: id_token, post_logout_redirect_uri: goodbye, state }
    const changed = typeof differences === 'function' ? await differences(id_token) : differences
    const pairs = Object.entries<string | null>({ ...usual, ...changed })
    const sent = Object.fromEntries(pairs.filter((pair): pair is [string, string] => pair[1] !== null))
    const page = await open(t, `/oauth2/logout?${new URLSearchParams(sent)}`, cookie)
    expect(page.statusCode).toBe(200)
    const form = { csrf_token: csrfTokenIn(page), ...sent }
    const confirmed = await post(t.app, '/oauth2/logout/confirm', cookie, form)
    // The session has ended, so the next request without a page fails.
    const again = parametersOf({ prompt: 'none' })
    expect(errorOf(await open(t, party.link(again), cookie), again)).toBe('login_required')
    return { state, location: String(confirmed.headers.location), cookies: cookiesOf(confirmed) }
  }

  /** Signs out with parameters that let the browser stay at svc, which then says that the person is signed out. */
  async function expectToStay(differences: Parameters<typeof signOut>[0]): Promise<void> {
    const { location, cookies } = await signOut(differences)
    expect(location).toBe('/')
    expect((await open(t, location, cookies)).body).toContain('You are signed out')
  }

  it('oidcc-rp-initiated-logout', async () => {
    const { state, location } = await signOut({})
    expect(location).toBe(`${goodbye}?state=${state}`)
  })

  it('oidcc-rp-initiated-logout-bad-post-logout-redirect-uri', async () => {
    const elsewhere = 'https://app.example.com/test/a/svc/bad_post_logout_redirect_uri'
    await expectToStay({ post_logout_redirect_uri: elsewhere })
  })

  it('oidcc-rp-initiated-logout-modified-id-token-hint', async () => {
    const header = Buffer.from('{"alg": "none"}').toString('base64url')
    await expectToStay((idToken) => ({ id_token_hint: `${header}.${idToken.split('.')[1]}.` }))
  })

  it('oidcc-rp-initiated-logout-no-id-token-hint', async () => {
    await expectToStay({ id_token_hint: null })
  })

  it('oidcc-rp-initiated-logout-no-params', async () => {
    await expectToStay({ id_token_hint: null, post_logout_redirect_uri: null, state: null })
  })

  it('oidcc-rp-initiated-logout-no-post-logout-redirect-uri', async () => {
    await expectToStay({ post_logout_redirect_uri: null })
  })

  it('oidcc-rp-initiated-logout-no-state', async () => {
    expect((await signOut({ state: null })).location).toBe(goodbye)
  })

  it('oidcc-rp-initiated-logout-only-state', async () => {
    await expectToStay({ id_token_hint: null, post_logout_redirect_uri: null })
  })

  it('oidcc-rp-initiated-logout-query-added-to-post-logout-redirect-uri', async () => {
    await expectToStay({ post_logout_redirect_uri: `${goodbye}?foo=bar` })
  })

  // An ID token that the application has made: signed with its secret, by itself for svc.
  it('oidcc-rp-initiated-logout-bad-id-token-hint', async () => {
    const { clientId, clientSecret } = party.application
    const claims = new SignJWT({ sub: 'SubjectID', nonce: 'flibble' })
      .setProtectedHeader({ alg: 'HS256' })
      .setIssuer(clientId)
      .setAudience('http://svc.test')
      .setIssuedAt()
      .setExpirationTime('5m')
    await expectToStay(async () => ({ id_token_hint: await claims.sign(Buffer.from(clientSecret)) }))
  })
})

import { createHash } from 'node:crypto'
import { decodeProtectedHeader } from 'jose'
import { describe, expect, it } from 'vitest'
import { disableAccount } from '../../src/accounts/account-lifecycle.ts'
import { operator } from '../../src/domain/principal.ts'
import type { TokenResponse } from '../../src/web/oauth/token.ts'
import { verifyEmail } from '../support/account-rows.ts'
import {
  aMember,
  aPersonalToken,
  aRepository,
  cookiesOf,
  csrfTokenIn,
  password,
  post,
} from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { open, responseOf, submitConsent } from '../support/browse.ts'
import { aPersonWithTotp, codeOf, forgetCodes, halfSignIn } from '../support/factor-actors.ts'
import { basicOf } from '../support/oauth-actors.ts'
import { changeRegistration, liveGrantsOf, setRedemptionAge } from '../support/oauth-rows.ts'
import { aRelyingParty, askUserinfo, confirmAccess, readIdToken, signInAt } from '../support/openid-actors.ts'
import { countRows, dropRows } from '../support/rows.ts'
import { aConfirmationLink, setProofAges } from '../support/session-rows.ts'
import { ask, postForm } from '../support/token-client.ts'

const t = useApp()

describe('an ID token (OPENID 243)', () => {
  it('tells who has signed in, when and how, and is for the application and the access token', async () => {
    const { account, application, enter } = await aRelyingParty(t)
    const tokens = await enter({ nonce: 'n-0S6_WzA2Mj & "ü"' })
    expect(tokens).toMatchObject({ token_type: 'bearer', scope: 'openid profile email' })
    const claims = await readIdToken(t, application, tokens.id_token)
    const now = Date.now() / 1000
    expect(claims).toEqual({
      iss: 'http://svc.test',
      sub: account.id,
      aud: application.clientId,
      iat: expect.closeTo(now, -2),
      exp: (claims.iat ?? 0) + 3600,
      auth_time: expect.closeTo(now, -2),
      nonce: 'n-0S6_WzA2Mj & "ü"',
      at_hash: createHash('sha256')
        .update(tokens.access_token)
        .digest()
        .subarray(0, 16)
        .toString('base64url'),
      sid: expect.stringMatching(/^[0-9a-f-]{36}$/),
      acr: '1',
      amr: ['pwd'],
    })
    expect(decodeProtectedHeader(tokens.id_token ?? '')).toEqual({
      alg: 'RS256',
      typ: 'JWT',
      kid: expect.stringMatching(/^[\w-]{43}$/),
    })
  })

  it('comes with each refresh: with the first time of the sign-in, and without a nonce', async () => {
    const { application, enter, refresh } = await aRelyingParty(t)
    const first = await enter({ nonce: 'once' })
    const before = await readIdToken(t, application, first.id_token)
    await setProofAges(t.db, '1 day')
    const second = (await refresh(first.refresh_token)).json<TokenResponse>()
    const after = await readIdToken(t, application, second.id_token)
    const { nonce, ...same } = before
    const { at_hash } = same
    expect(nonce).toBe('once')
    const other = expect.any(String)
    const later = expect.any(Number)
    expect(after).toEqual({ ...same, iat: later, exp: later, at_hash: other })
    expect(after['at_hash']).not.toBe(at_hash)
    // A repeated refresh gets the same pair, and another ID token for it.
    const repeated = (await refresh(first.refresh_token)).json<TokenResponse>()
    expect((await readIdToken(t, application, repeated.id_token))['at_hash']).toBe(after['at_hash'])
    const narrowed = (await refresh(second.refresh_token, { scope: 'profile' })).json<TokenResponse>()
    expect(narrowed).toMatchObject({ scope: 'profile' })
    expect(narrowed.id_token).toBeUndefined()
  })

  it('names one session for all sign-ins of a browser at an application', async () => {
    const first = await aRelyingParty(t)
    const sidOf = async (tokens: TokenResponse) =>
      (await readIdToken(t, first.application, tokens.id_token))['sid']
    const sid = await sidOf(await first.enter())
    expect(await sidOf(await first.enter({ prompt: 'consent' }))).toBe(sid)
    expect(await countRows(t.db, 'openid_session', { sid })).toBe(1)
  })

  it('is not issued without the scope openid, which no default includes (OPENID 244)', async () => {
    const { application, enter, link, cookie } = await aRelyingParty(t)
    const before = await countRows(t.db, 'openid_sign_in')
    const tokens = await enter({ scope: null, nonce: 'n' })
    expect(tokens.scope).toBe('account-profile:r')
    expect(tokens.id_token).toBeUndefined()
    expect((await enter({ scope: 'profile' })).id_token).toBeUndefined()
    expect(await countRows(t.db, 'openid_sign_in')).toBe(before)
    const only = await aRelyingParty(t, { application: { scopes: ['openid'] } })
    expect(responseOf(await open(t, only.link({ scope: null }), only.cookie))).toMatchObject({
      error: 'invalid_scope',
    })
    const narrow = await aRelyingParty(t, { application: { scopes: ['account-profile:r'] } })
    expect(responseOf(await open(t, narrow.link(), narrow.cookie))).toMatchObject({ error: 'invalid_scope' })
    expect([application.scopes, (await open(t, link(), cookie)).statusCode]).toEqual([expect.any(Array), 200])
  })

  describe('of a device', () => {
    /** A device whose code the browser confirms. Returns the tokens of its poll. */
    async function aConfirmedDevice(
      { application, cookie }: Awaited<ReturnType<typeof aRelyingParty>>,
      { scope = 'openid', before = async () => {} } = {},
    ): Promise<TokenResponse> {
      const begun = await ask(t, application, 'device', { scope })
      const { device_code = '', user_code } = begun.json<Record<string, string>>()
      const page = await open(t, `/device?user_code=${user_code}`, cookie)
      expect((await submitConsent(t, page, cookie, 'approve')).headers.location).toBe('/device/approved')
      await before()
      const grant_type = 'urn:ietf:params:oauth:grant-type:device_code'
      return (await ask(t, application, 'token', { grant_type, device_code })).json()
    }
    const aDeviceParty = (about: Parameters<typeof aRelyingParty>[1] = {}) =>
      aRelyingParty(t, { ...about, application: { isDevice: true, ...about.application } })

    it('tells who has confirmed it, how and when, also with each refresh', async () => {
      const party = await aDeviceParty()
      const tokens = await aConfirmedDevice(party, { scope: 'openid profile' })
      const claims = await readIdToken(t, party.application, tokens.id_token)
      expect(claims).toEqual({
        iss: 'http://svc.test',
        sub: party.account.id,
        aud: party.application.clientId,
        iat: expect.any(Number),
        exp: (claims.iat ?? 0) + 3600,
        auth_time: expect.closeTo(claims.iat ?? 0, -2),
        at_hash: expect.any(String),
        sid: expect.stringMatching(/^[0-9a-f-]{36}$/),
        acr: '1',
        amr: ['pwd'],
      })
      expect((await askUserinfo(t, tokens.access_token)).json()).toMatchObject({
        sub: party.account.id,
        preferred_username: party.account.username,
      })
      // As if there were a later proof.
      await setProofAges(t.db, '-1 hour')
      const refreshed = (await party.refresh(tokens.refresh_token)).json<TokenResponse>()
      const { sub, auth_time, sid } = claims
      expect(await readIdToken(t, party.application, refreshed.id_token)).toMatchObject({
        sub,
        auth_time,
        sid,
      })
    })

    it('tells of the second factor of the person who has confirmed it (OPENID 251)', async () => {
      const person = await aPersonWithTotp(t)
      const party = await aDeviceParty()
      const { cookie: half, send } = await halfSignIn(t.app, person)
      const cookie = `${half}; ${cookiesOf(await send({ code: codeOf(person.secret) }))}`
      const { id_token } = await aConfirmedDevice({ ...party, cookie })
      const claims = await readIdToken(t, party.application, id_token)
      expect(claims).toMatchObject({ sub: person.id, acr: '2', amr: ['pwd', 'otp', 'mfa'] })
    })

    it('comes also if the browser has signed out before the poll', async () => {
      const party = await aDeviceParty()
      const { account, cookie, application } = party
      const { id_token } = await aConfirmedDevice(party, {
        before: async () => {
          const page = await open(t, '/settings/account', cookie)
          await post(t.app, '/logout', cookie, { csrf_token: csrfTokenIn(page) })
        },
      })
      expect(await readIdToken(t, application, id_token)).toMatchObject({ sub: account.id, acr: '1' })
    })

    it('is not issued without openid (OPENID 244)', async () => {
      const tokens = await aConfirmedDevice(await aDeviceParty(), { scope: 'account-profile:r' })
      expect(tokens).toEqual({
        access_token: expect.any(String),
        refresh_token: expect.any(String),
        token_type: 'bearer',
        expires_in: expect.any(Number),
        scope: 'account-profile:r',
      })
    })
  })

  it('comes with openid and offline_access, which every application has anyway (OPENID 259)', async () => {
    const party = await aRelyingParty(t, { application: { isDevice: true } })
    const { application, link, cookie, enter, refresh } = party
    const tokens = await enter({ scope: 'openid offline_access' })
    expect(tokens).toMatchObject({ scope: 'openid', id_token: expect.any(String) })
    const refreshed = await refresh(tokens.refresh_token, { scope: 'offline_access openid' })
    expect(refreshed.json()).toMatchObject({ scope: 'openid', id_token: expect.any(String) })
    const device = await ask(t, application, 'device', { scope: 'openid offline_access profile' })
    expect(device.statusCode).toBe(200)
    // Without openid it is an unknown scope (OAUTH 34).
    for (const scope of ['offline_access', 'account-profile:r offline_access']) {
      expect(responseOf(await open(t, link({ scope }), cookie))).toMatchObject({ error: 'invalid_scope' })
      expect((await ask(t, application, 'device', { scope })).json()).toMatchObject({
        error: 'invalid_scope',
      })
      const narrowed = await refresh(refreshed.json<TokenResponse>().refresh_token, { scope })
      expect(narrowed.json()).toMatchObject({ error: 'invalid_scope' })
    }
  })

  it('is refused after the account was disabled', async () => {
    const { account, authorize, enter, exchange, refresh } = await aRelyingParty(t)
    const { refresh_token } = await enter()
    const code = responseOf(await authorize())['code'] ?? ''
    await disableAccount(t.db, operator, account.id)
    expect((await exchange(code)).json()).toMatchObject({ error: 'invalid_grant' })
    expect((await refresh(refresh_token)).json()).toMatchObject({ error: 'invalid_grant' })
  })

  it('is not issued for a code that was used before (OPENID 255)', async () => {
    const { authorize, exchange } = await aRelyingParty(t)
    const code = responseOf(await authorize())['code'] ?? ''
    const tokens = (await exchange(code)).json<TokenResponse>()
    // A slow machine may take longer than three seconds between the two.
    await setRedemptionAge(t.db, '-1 minute')
    expect((await exchange(code)).json()).toMatchObject({ error: 'invalid_grant' })
    expect((await askUserinfo(t, tokens.access_token)).statusCode).toBe(200)
    await setRedemptionAge(t.db, '31 seconds')
    const again = await exchange(code)
    expect([again.statusCode, again.json()]).toMatchObject([400, { error: 'invalid_grant' }])
    expect((await askUserinfo(t, tokens.access_token)).statusCode).toBe(401)
  })

  it('tells of a second factor, and of a proof that was given later (OPENID 251)', async () => {
    const person = await aPersonWithTotp(t)
    const party = await aRelyingParty(t)
    const read = async (cookie: string) =>
      readIdToken(t, party.application, (await party.enter({}, cookie)).id_token)
    const { cookie: half, send } = await halfSignIn(t.app, person)
    const full = `${half}; ${cookiesOf(await send({ code: codeOf(person.secret) }))}`
    expect(await read(full)).toMatchObject({ sub: person.id, acr: '2', amr: ['pwd', 'otp', 'mfa'] })

    await forgetCodes(t, person)
    const before = await read(person.cookie)
    expect(before).toMatchObject({ acr: '1', amr: ['pwd'] })
    const page = await open(t, '/settings/confirm-access', person.cookie)
    const form = { csrf_token: csrfTokenIn(page), code: codeOf(person.secret) }
    expect((await post(t.app, '/settings/confirm-access', person.cookie, form)).statusCode).toBe(303)
    const after = await read(person.cookie)
    expect(after).toMatchObject({ acr: '2', sid: before['sid'] })
    expect(new Set(after['amr'] as string[])).toEqual(new Set(['pwd', 'otp', 'mfa']))
  })

  it('tells of the last proof only, and of what was proved just before it (OPENID 251)', async () => {
    const person = await aPersonWithTotp(t)
    const party = await aRelyingParty(t)
    // Its first session has no second factor.
    await dropRows(t.db, 'session', { accountId: person.id })
    const { cookie: half, send } = await halfSignIn(t.app, person)
    const cookie = `${half}; ${cookiesOf(await send({ code: codeOf(person.secret) }))}`
    const read = async () => {
      const { acr, amr } = await readIdToken(t, party.application, (await party.enter({}, cookie)).id_token)
      return [acr, new Set(amr as string[])]
    }
    const confirm = async (proof: Record<string, string>, url = '/settings/confirm-access') => {
      const page = await open(t, '/settings/confirm-access', cookie)
      const sent = await post(t.app, url, cookie, { csrf_token: csrfTokenIn(page), ...proof })
      expect(sent.statusCode).toBe(303)
    }
    expect(await read()).toEqual(['2', new Set(['pwd', 'otp', 'mfa'])])
    await setProofAges(t.db, '20 days')
    await confirm({ current_password: password })
    expect(await read()).toEqual(['1', new Set(['pwd'])])
    await setProofAges(t.db, '1 hour')
    await forgetCodes(t, person)
    await confirm({ code: codeOf(person.secret) })
    expect(await read()).toEqual(['2', new Set(['otp'])])
    await setProofAges(t.db, '1 hour')
    await aConfirmationLink(t.db, person, 'mailed')
    await confirm({ token: 'mailed' }, '/settings/confirm-access/link')
    expect(await read()).toEqual(['1', new Set()])
  })
})

describe('the claims about an account (OPENID 243, 254)', () => {
  it('are those of the scopes: name and username, and the address with whether it is verified', async () => {
    const { account, enter } = await aRelyingParty(t, {
      account: { displayName: 'Ann', email: 'ann@example.com' },
    })
    const tokens = await enter()
    const response = await askUserinfo(t, tokens.access_token)
    expect(response.headers['content-type']).toBe('application/json;charset=UTF-8')
    expect(response.headers['cache-control']).toBe('no-store')
    const shown = { sub: account.id, name: 'Ann', preferred_username: account.username }
    expect(response.json()).toEqual({ ...shown, email: 'ann@example.com', email_verified: false })
    await verifyEmail(t.db, account)
    expect((await askUserinfo(t, tokens.access_token)).json()).toMatchObject({ email_verified: true })
    expect((await askUserinfo(t, (await enter({ scope: 'openid' })).access_token)).json()).toEqual({
      sub: account.id,
    })
    expect((await askUserinfo(t, (await enter({ scope: 'openid profile' })).access_token)).json()).toEqual(
      shown,
    )
  })

  it('come in the ID token if the parameter claims asks for them there (OPENID 251)', async () => {
    const party = await aRelyingParty(t, { account: { displayName: 'Ann', email: 'bob@example.com' } })
    const claims = JSON.stringify({
      id_token: { name: { essential: true }, nickname: null, acr: { essential: true, values: ['9'] } },
      userinfo: { email: null },
    })
    const link = party.link({ scope: 'openid', claims })
    const page = await open(t, link, party.cookie)
    // The consent page shows what they tell.
    expect(page.body).toContain('See your profile: username and display name')
    expect(page.body).toContain('See your email address, and whether it is verified')
    const tokens = await party.enter({ scope: 'openid', claims })
    expect(tokens.scope).toBe('openid profile email')
    expect(await readIdToken(t, party.application, tokens.id_token)).toMatchObject({ name: 'Ann', acr: '1' })
    const named = await readIdToken(t, party.application, tokens.id_token)
    expect(Object.keys(named)).not.toEqual(expect.arrayContaining(['email']))
    expect((await askUserinfo(t, tokens.access_token)).json()).toMatchObject({ email: 'bob@example.com' })
  })

  it('never go beyond what the application is registered with', async () => {
    const party = await aRelyingParty(t, { application: { scopes: ['openid'] } })
    const claims = JSON.stringify({ id_token: { name: null }, userinfo: { email: null } })
    const tokens = await party.enter({ scope: 'openid', claims })
    expect(tokens.scope).toBe('openid')
    expect(Object.keys(await readIdToken(t, party.application, tokens.id_token))).not.toContain('name')
    expect((await askUserinfo(t, tokens.access_token)).json()).toEqual({ sub: party.account.id })
  })
})

describe('/oauth2/userinfo (OPENID 254)', () => {
  it('takes the token in the header, also of a POST, or in the body of a POST', async () => {
    const { account, enter } = await aRelyingParty(t)
    const { access_token } = await enter({ scope: 'openid' })
    const authorization = `Bearer ${access_token}`
    const posted = await t.app.inject({ method: 'POST', url: '/oauth2/userinfo', headers: { authorization } })
    expect(posted.json()).toEqual({ sub: account.id })
    const inBody = await postForm(t, '/oauth2/userinfo', `access_token=${access_token}`)
    expect(inBody.json()).toEqual({ sub: account.id })
    const both = await postForm(t, '/oauth2/userinfo', `access_token=${access_token}`, { authorization })
    expect([both.statusCode, both.json().error]).toEqual([400, 'invalid_request'])
    const inQuery = await t.app.inject(`/oauth2/userinfo?access_token=${access_token}`)
    expect(inQuery.statusCode).toBe(401)
  })

  it('refuses everything else with a challenge', async () => {
    const { account, enter, application } = await aRelyingParty(t)
    const challenges = async (authorization?: string) => {
      const headers = authorization === undefined ? {} : { authorization }
      const { statusCode, headers: sent } = await t.app.inject({ url: '/oauth2/userinfo', headers })
      return [statusCode, sent['www-authenticate']]
    }
    expect(await challenges()).toEqual([401, 'Bearer realm="svc", scope="openid"'])
    expect(await challenges(basicOf(application.clientId, application.clientSecret))).toEqual([
      401,
      'Bearer realm="svc", scope="openid"',
    ])
    expect(await challenges('Bearer')).toEqual([400, expect.stringContaining('error="invalid_request"')])
    for (const token of ['x', await aPersonalToken(t.db, account), (await enter()).refresh_token]) {
      expect(await challenges(`Bearer ${token}`)).toEqual([
        401,
        expect.stringContaining('error="invalid_token"'),
      ])
    }
    const { access_token } = await enter({ scope: 'account-profile:r' })
    expect(await challenges(`Bearer ${access_token}`)).toEqual([
      403,
      expect.stringMatching(/error="insufficient_scope".*scope="openid"/),
    ])
  })
})

describe('GET /.well-known/openid-configuration (OPENID 241)', () => {
  it('describes the provider', async () => {
    const response = await t.app.inject('/.well-known/openid-configuration')
    expect(response.headers['content-type']).toBe('application/json;charset=UTF-8')
    expect(response.json()).toMatchObject({
      issuer: 'http://svc.test',
      authorization_endpoint: 'http://svc.test/oauth2/auth',
      token_endpoint: 'http://svc.test/oauth2/token',
      userinfo_endpoint: 'http://svc.test/oauth2/userinfo',
      jwks_uri: 'http://svc.test/oauth2/jwks',
      response_types_supported: ['code'],
      response_modes_supported: ['query'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256', 'ES256'],
      scopes_supported: expect.arrayContaining(['openid', 'profile', 'email', 'repo-code:r']),
      claims_supported: expect.arrayContaining(['sub', 'email_verified', 'sid']),
      claims_parameter_supported: true,
      request_parameter_supported: false,
      request_uri_parameter_supported: false,
      acr_values_supported: ['1', '2', 'phr'],
    })
  })
})

describe('the authorization request of OpenID Connect', () => {
  const prove = (url: string, cookie: string) => confirmAccess(t, url, cookie)

  it('gets a code with prompt=none if an earlier consent covers it (OPENID 246)', async () => {
    const { link, cookie, enter } = await aRelyingParty(t)
    const none = link({ prompt: 'none' })
    expect(responseOf(await open(t, none))).toMatchObject({ error: 'login_required', iss: 'http://svc.test' })
    expect(responseOf(await open(t, none, cookie))).toMatchObject({ error: 'consent_required' })
    await enter()
    expect(responseOf(await open(t, none, cookie))).toMatchObject({ code: expect.any(String) })
  })

  it('learns nothing about the account with prompt=none before a consent (OPENID 246)', async () => {
    const { account, link, cookie } = await aRelyingParty(t)
    const [hidden, own] = [await aRepository(t.db), await aRepository(t.db)]
    await aMember(t.db, account, own, 'guest')
    await setProofAges(t.db, '1 hour')
    const subject = (value: string) => JSON.stringify({ id_token: { sub: { value } } })
    const answers: unknown[] = []
    for (const parameters of [
      {},
      { resource: `${t.config.baseUrl}/${own.path}/-/packages` },
      { resource: `${t.config.baseUrl}/${hidden.path}/-/packages` },
      { claims: subject(account.id) },
      { claims: subject('17') },
      { id_token_hint: 'x' },
      { max_age: '10' },
    ]) {
      answers.push(responseOf(await open(t, link({ prompt: 'none', ...parameters }), cookie)))
    }
    const [first] = answers
    expect(first).toMatchObject({ error: 'consent_required' })
    for (const answer of answers) expect(answer).toEqual(first)
  })

  it('asks for a new proof with prompt=login, and comes back with its time (OPENID 247)', async () => {
    const { application, link, cookie, enter, exchange } = await aRelyingParty(t)
    await enter()
    await setProofAges(t.db, '1 minute')
    const asked = await open(t, link({ prompt: 'login', state: 'a b' }), cookie)
    expect([asked.statusCode, asked.headers.location]).toEqual([
      303,
      expect.stringMatching(/^\/settings\/confirm-access\?return=/),
    ])
    const proved = await prove(String(asked.headers.location), cookie)
    const back = String(proved.headers.location)
    expect(back).toMatch(/^\/oauth2\/auth\?.*&svc_asked=/)
    const response = responseOf(await open(t, back, cookie))
    expect(response).toEqual({ code: expect.any(String), state: 'a b', iss: 'http://svc.test' })
    const { id_token } = (await exchange(response['code'] ?? '')).json<TokenResponse>()
    const { auth_time, iat } = await readIdToken(t, application, id_token)
    expect(Number(iat) - Number(auth_time)).toBeLessThan(30)
    // The mark is for this link only, and its time is not the client's to choose.
    const mark = /&svc_asked=.*/.exec(back)?.[0] ?? ''
    for (const other of [
      link({ prompt: 'login', state: 'other' }) + mark,
      back.replace(/svc_asked=\d/, 'svc_asked=0'),
      link({ prompt: 'login', state: 'a b' }),
    ])
      expect((await open(t, other, cookie)).headers.location).toMatch(/^\/settings\/confirm-access/)
  })

  it('is satisfied with prompt=login by a sign-in after it (OPENID 247)', async () => {
    const { account, link, enter } = await aRelyingParty(t)
    await enter()
    const hinted = link({ prompt: 'login', login_hint: account.username })
    const { form, cookie, location } = await signInAt(t, hinted, account)
    // The hint fills in the name (OPENID 250).
    expect(form.body).toContain(`name="username" value="${account.username}"`)
    const redirect = await open(t, location, cookie)
    expect(responseOf(redirect)).toMatchObject({ code: expect.any(String) })
  })

  it('accepts a proof that is at most max_age seconds old, and never with 0 (OPENID 247)', async () => {
    const { application, link, cookie, enter } = await aRelyingParty(t)
    await enter()
    await setProofAges(t.db, '100 seconds')
    const { auth_time, iat } = await readIdToken(t, application, (await enter({ max_age: '1000' })).id_token)
    const age = Number(iat) - Number(auth_time)
    expect([age >= 99, age < 130], String(age)).toEqual([true, true])
    for (const max_age of ['50', '0']) {
      expect((await open(t, link({ max_age }), cookie)).headers.location).toMatch(
        /^\/settings\/confirm-access/,
      )
      expect(responseOf(await open(t, link({ max_age, prompt: 'none' }), cookie))).toMatchObject({
        error: 'login_required',
      })
    }
    expect(responseOf(await open(t, link({ max_age: 'x' }), cookie))).toMatchObject({
      error: 'invalid_request',
    })
  })

  it('returns only to the registered path, also of a page that was open when it changed (OPENID 260)', async () => {
    const { application, link, cookie } = await aRelyingParty(t)
    const elsewhere = { redirect_uri: 'https://app.example.com/other' }
    for (const scope of ['openid', 'email openid', 'openid nonsense'])
      expect((await open(t, link({ ...elsewhere, scope }), cookie)).statusCode).toBe(400)
    expect((await open(t, link({ ...elsewhere, scope: 'account-profile:r' }), cookie)).statusCode).toBe(200)
    const page = await open(t, link(), cookie)
    expect(page.statusCode).toBe(200)
    await changeRegistration(t.db, application, { redirectUri: elsewhere.redirect_uri })
    const refused = await submitConsent(t, page, cookie, 'approve')
    expect([refused.statusCode, refused.headers.location]).toEqual([400, undefined])
  })

  it('asks for a proof again when it got older than max_age on the consent page (OPENID 247)', async () => {
    const { link, cookie } = await aRelyingParty(t)
    const page = await open(t, link({ max_age: '1000', state: 's' }), cookie)
    expect(page.statusCode).toBe(200)
    await setProofAges(t.db, '1001 seconds')
    const stale = await submitConsent(t, page, cookie, 'approve')
    expect(stale.headers.location).toMatch(/^\/settings\/confirm-access/)
    const proved = await prove(String(stale.headers.location), cookie)
    const again = await open(t, String(proved.headers.location), cookie)
    const redirect = await submitConsent(t, again, cookie, 'approve')
    expect(responseOf(redirect)).toMatchObject({ code: expect.any(String), state: 's' })
  })

  it('shows the consent page for prompt=consent and select_account, with the way to another account (OPENID 248)', async () => {
    const { link, cookie, enter } = await aRelyingParty(t)
    await enter()
    for (const prompt of ['consent', 'select_account', 'login consent']) {
      const page = await open(t, link({ prompt }), cookie)
      if (prompt.includes('login')) expect(page.headers.location).toMatch(/confirm-access/)
      else expect([page.statusCode, page.body]).toEqual([200, expect.stringContaining('/oauth2/auth/switch')])
    }
    for (const prompt of ['none login', 'none consent'])
      expect(responseOf(await open(t, link({ prompt }), cookie))).toMatchObject({ error: 'invalid_request' })
  })

  it('gets login_required with a hint about another account, or one that svc has not signed (OPENID 249)', async () => {
    const [mine, other] = [await aRelyingParty(t), await aRelyingParty(t)]
    const own = (await mine.enter()).id_token ?? ''
    const foreign = (await other.enter()).id_token ?? ''
    const ask = async (id_token_hint: string) =>
      responseOf(await open(t, mine.link({ prompt: 'none', id_token_hint }), mine.cookie))
    expect(await ask(own)).toMatchObject({ code: expect.any(String) })
    const changed = own.replace(/\.[^.]{4}/, '.e30A')
    for (const hint of [foreign, changed, 'x'])
      expect(await ask(hint)).toMatchObject({ error: 'login_required' })
    const claims = (value: string) => JSON.stringify({ id_token: { sub: { value } } })
    const askFor = async (value: string) =>
      responseOf(await open(t, mine.link({ prompt: 'none', claims: claims(value) }), mine.cookie))
    expect(await askFor(mine.account.id)).toMatchObject({ code: expect.any(String) })
    expect(await askFor(other.account.id)).toMatchObject({ error: 'login_required' })
  })

  it('tells a stranger nothing about who is signed in before the person approves (OPENID 249)', async () => {
    const [mine, other] = [await aRelyingParty(t), await aRelyingParty(t)]
    const foreign = (await other.enter()).id_token ?? ''
    const claims = JSON.stringify({ id_token: { sub: { value: other.account.id } } })
    for (const parameters of [{ id_token_hint: foreign }, { id_token_hint: 'x' }, { claims }]) {
      const page = await open(t, mine.link({ ...parameters, state: 's' }), mine.cookie)
      expect(page.statusCode).toBe(200)
      expect(page.body).toContain('/oauth2/auth/switch')
      const denied = responseOf(await submitConsent(t, page, mine.cookie, 'deny'))
      expect(denied).toMatchObject({ error: 'access_denied' })
      const again = await open(t, mine.link({ ...parameters, state: 's' }), mine.cookie)
      const answer = responseOf(await submitConsent(t, again, mine.cookie, 'approve'))
      expect(answer).toMatchObject({ error: 'login_required', state: 's', iss: 'http://svc.test' })
    }
    expect(await liveGrantsOf(t.db, mine.account)).toEqual([])
    // An application to which the person has agreed learns it at once.
    await mine.enter()
    const known = responseOf(await open(t, mine.link({ id_token_hint: foreign }), mine.cookie))
    expect(known).toMatchObject({ error: 'login_required' })
  })

  it('ignores ui_locales, claims_locales, display, acr_values and unknown parameters (OPENID 250, 251)', async () => {
    const { application, enter } = await aRelyingParty(t)
    const ignored = {
      ui_locales: 'de',
      claims_locales: 'de',
      display: 'popup',
      acr_values: 'phr 2',
      more: 'x',
    }
    expect(await readIdToken(t, application, (await enter(ignored)).id_token)).toMatchObject({ acr: '1' })
  })

  it.each([
    [{ request: 'x.y.z' }, 'request_not_supported'], // 252
    [{ request_uri: 'https://app.example.com/r' }, 'request_uri_not_supported'], // 252
    [{ registration: '{}' }, 'registration_not_supported'], // 252
    [{ claims: '[' }, 'invalid_request'],
    [{ claims: '{"id_token":7}' }, 'invalid_request'],
    [{ nonce: 'x'.repeat(1025) }, 'invalid_request'],
    [{ response_mode: 'form_post' }, 'invalid_request'], // 256
    [{ response_mode: 'fragment' }, 'invalid_request'], // 256
    [{ scope: 'openid nothing' }, 'invalid_scope'],
  ])('gets an error for %j (OPENID 252, 256)', async (parameters, error) => {
    const { link, cookie } = await aRelyingParty(t)
    const response = responseOf(await open(t, link({ ...parameters, state: 's' }), cookie))
    expect(response).toMatchObject({ error, state: 's', iss: 'http://svc.test' })
  })

  it('accepts response_mode=query (OPENID 256)', async () => {
    const { enter } = await aRelyingParty(t)
    expect((await enter({ response_mode: 'query' })).id_token).toMatch(/\./)
  })

  it('may be a POST from another site, which leads to the same link and changes nothing (OPENID 253)', async () => {
    const { link, cookie, application } = await aRelyingParty(t)
    const { searchParams } = new URL(link({ state: 'a+b &"ü' }), 'http://svc.test')
    const from = { origin: 'https://app.example.com', 'sec-fetch-site': 'cross-site' }
    const before = await countRows(t.db, 'authorization_request')
    const posted = await postForm(t, '/oauth2/auth', searchParams.toString(), { ...from, cookie })
    expect(posted.statusCode).toBe(303)
    expect(await countRows(t.db, 'authorization_request')).toBe(before)
    const page = await open(t, String(posted.headers.location), cookie)
    const redirect = await submitConsent(t, page, cookie, 'approve')
    expect(responseOf(redirect)).toMatchObject({ code: expect.any(String), state: 'a+b &"ü' })
    const forged = await postForm(t, '/oauth2/auth', 'decision=approve&client_id=x&request=y', {
      ...from,
      cookie,
    })
    expect(forged.statusCode).toBe(403)
    const long = `client_id=${application.clientId}&state=${'x'.repeat(9000)}`
    expect((await postForm(t, '/oauth2/auth', long, from)).statusCode).toBe(400)
    const request = `${searchParams}&request=x.y.z`
    const refused = await open(t, String((await postForm(t, '/oauth2/auth', request, from)).headers.location))
    expect(responseOf(refused)).toMatchObject({ error: 'request_not_supported' })
  })
})

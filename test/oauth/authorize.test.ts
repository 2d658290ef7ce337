import { describe, expect, it } from 'vitest'
import { aName, anAccount, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, responseOf, submitConsent } from '../support/browse.ts'
import { anApplication } from '../support/oauth-actors.ts'
import {
  changeRegistration,
  endAuthorizationsOf,
  forgetWhenGranted,
  liveGrantsOf,
  storedCode,
} from '../support/oauth-rows.ts'
import { countRows } from '../support/rows.ts'

const issuer = 'http://svc.test'
const challenge = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'

describe('GET /oauth2/auth', () => {
  const t = useApp()

  async function aVisitor(differences: Parameters<typeof anApplication>[1] = {}) {
    const account = await anAccount(t.db)
    const application = await anApplication(t.db, differences)
    return { account, application, cookie: await signIn(t.app, account) }
  }

  /** Opens the link, approves, and returns the redirect. */
  async function approve(parameters: Record<string, string | null>) {
    const { application, cookie } = await aVisitor()
    const page = await open(t, authorizeLink(application, parameters), cookie)
    return await submitConsent(t, page, cookie, 'approve')
  }

  const countCodes = () => countRows(t.db, 'authorization_code')

  describe('before the redirect URI is proven', () => {
    async function expectPage(url: string, reason: string) {
      const page = await open(t, url)
      expect(page.statusCode).toBe(400)
      expect(page.headers.location).toBeUndefined()
      expect(page.headers['content-type']).toBe('text/html; charset=utf-8')
      expect(page.body).toContain('link is not accessible')
      expect(page.body).toContain(reason)
      expect(page.body).toMatch(/include the request ID:<br><code>[\w-]+<\/code>/)
    }

    it('shows a page for an unknown client_id (8)', async () => {
      await expectPage(
        authorizeLink({ clientId: 'nobody12' }, { redirect_uri: 'https://evil.test' }),
        'not known',
      )
    })

    it('shows a page without client_id, also when it is empty (9)', async () => {
      await expectPage('/oauth2/auth', 'client_id is missing')
      await expectPage('/oauth2/auth?response_type=code&client_id=', 'client_id is missing')
    })

    it.each(['pending', 'suspended'] as const)(
      'shows a page for an application that is %s (10)',
      async (status) => {
        await expectPage(authorizeLink(await anApplication(t.db, { status })), 'not approved')
      },
    )

    it.each([
      ['https://evil.test/', 'domain'], // 14
      ['https://x@app.example.com/', 'username'], // 15
      ['https://app.example.com\\@evil.test/', 'percent-encoded'], // 16
      ['https://app.example.com/\r\nset-cookie:x', 'percent-encoded'], // 16
      ['https://app.example.com/#x', 'fragment'], // 17
      ['//app.example.com/', 'absolute'], // 18
      ['javascript:alert(1)', 'absolute'], // 19
      ['http://app.example.com/', 'scheme'], // 20
      ['https://2130706433/', 'domain'], // 21
      ['https://app.example.com./', 'domain'], // 22
      ['https://аpp.example.com/', 'percent-encoded'], // 23
      ['https://app.example.com:8443/', 'port'], // 25
      ['https://app.example.com/?code=x', 'already has'], // 26
    ])(
      'shows a page for redirect_uri %j (14–23, 25, 26; the whole table is the test of redirect-uri.ts)',
      async (redirect_uri, reason) => {
        await expectPage(authorizeLink(await anApplication(t.db), { redirect_uri }), reason)
      },
    )

    it('shows a page when client_id or redirect_uri is repeated (30)', async () => {
      const application = await anApplication(t.db)
      const link = authorizeLink(application, { redirect_uri: application.redirectUri })
      await expectPage(`${link}&client_id=${application.clientId}`, 'client_id is repeated')
      await expectPage(`${link}&redirect_uri=https%3A%2F%2Fevil.test`, 'redirect_uri is repeated')
    })

    it('shows a page for parameters that cannot be decoded', async () => {
      const application = await anApplication(t.db)
      await expectPage('/oauth2/auth?client_id=%zz', 'not percent-encoded')
      await expectPage('/oauth2/auth?client_id=%00', 'not percent-encoded')
      await expectPage(`${authorizeLink(application)}&redirect_uri=%ff`, 'not percent-encoded')
    })

    it('never repeats values of the link or of the registration (48)', async () => {
      const application = await anApplication(t.db)
      const page = await open(
        t,
        authorizeLink(application, {
          redirect_uri: 'https://evil.test/<script>',
          state: '"><script>alert(1)',
        }),
      )
      expect(page.body).not.toMatch(/script|evil\.test|app\.example\.com/)
      const unknown = await open(t, '/oauth2/auth?client_id=<script>alert(1)</script>')
      expect(unknown.body).not.toContain('script')
    })

    it('responds with 400 to a URL longer than 8 kB (50)', async () => {
      await expectPage(authorizeLink(await anApplication(t.db), { state: 'x'.repeat(8200) }), 'longer than')
    })
  })

  describe('once the redirect URI is proven', () => {
    it.each([
      [{ response_type: null }, 'invalid_request'], // 28
      [{ response_type: '' }, 'invalid_request'], // 28
      [{ response_type: 'token' }, 'unsupported_response_type'], // 29
      [{ response_type: 'code token' }, 'unsupported_response_type'], // 29
      [{ response_mode: 'fragment' }, 'invalid_request'],
      [{ response_mode: 'form_post' }, 'invalid_request'],
      [{ scope: 'repo-code:rw' }, 'invalid_scope'], // 34
      [{ scope: 'account-profile:rw' }, 'invalid_scope'], // 34
      [{ scope: 'account-profile' }, 'invalid_scope'], // 34
      [{ scope: 'account-profile:r  account-email:r' }, 'invalid_scope'], // 34
      [{ scope: '"' }, 'invalid_scope'], // 34
      [{ code_challenge: challenge, code_challenge_method: 'plain' }, 'invalid_request'], // 37
      [{ code_challenge: challenge }, 'invalid_request'], // 37
      [{ code_challenge: 'short', code_challenge_method: 'S256' }, 'invalid_request'], // 38
      [{ code_challenge: `${challenge}=`, code_challenge_method: 'S256' }, 'invalid_request'], // 38
      [{ code_challenge_method: 'S256' }, 'invalid_request'], // 39
      [{ prompt: 'none login' }, 'invalid_request'],
      [{ prompt: 'none' }, 'login_required'],
    ])(
      'sends the application the error of %o, with iss (28, 29, 34, 37–40, OPENID 282)',
      async (parameters, error) => {
        const application = await anApplication(t.db)
        const redirect = await open(t, authorizeLink(application, { state: 's', ...parameters }))
        expect(redirect.statusCode).toBe(302)
        expect(redirect.headers.location).toMatch(/^https:\/\/app\.example\.com\/callback\?/)
        const { error_description, ...response } = responseOf(redirect)
        expect(response).toEqual({ error, state: 's', iss: issuer })
        expect(error_description).toMatch(/^[ !#-[\]-~]+$/)
      },
    )

    it('accepts response_mode=query, which it always uses', async () => {
      expect(responseOf(await approve({ response_mode: 'query' }))).toHaveProperty('code')
    })

    it('says that the transform algorithm is not supported (37)', async () => {
      const link = authorizeLink(await anApplication(t.db), {
        code_challenge: challenge,
        code_challenge_method: 'plain',
      })
      expect(responseOf(await open(t, link))['error_description']).toContain(
        'transform algorithm not supported',
      )
    })

    it.each(['response_type=code', 'scope=account-email%3Ar', 'code_challenge=x', 'prompt=consent'])(
      'refuses a repeated %s (31)',
      async (pair) => {
        const link = authorizeLink(await anApplication(t.db), { state: 's' })
        const redirect = await open(t, `${link}&${pair}&${pair}`)
        expect(responseOf(redirect)).toMatchObject({ error: 'invalid_request', state: 's' })
      },
    )

    it('refuses a repeated state, and returns neither (31)', async () => {
      const redirect = await open(t, `${authorizeLink(await anApplication(t.db), { state: 'a' })}&state=b`)
      expect(redirect.statusCode).toBe(302)
      expect(responseOf(redirect)).toMatchObject({ error: 'invalid_request' })
      expect(responseOf(redirect)).not.toHaveProperty('state')
    })

    it('sends the application an error for a parameter that cannot be decoded', async () => {
      const redirect = await open(t, `${authorizeLink(await anApplication(t.db))}&scope=%zz`)
      expect(responseOf(redirect)).toMatchObject({ error: 'invalid_request' })
    })
  })

  it('asks to sign in first, and comes back to the same request (1)', async () => {
    const account = await anAccount(t.db)
    const application = await anApplication(t.db)
    const link = `${authorizeLink(application, { state: 'a b+c&d=é', scope: 'account-email:r' })}&x=%20+%2B`
    const redirect = await open(t, link)
    expect(redirect.statusCode).toBeOneOf([302, 303])
    expect(redirect.headers.location).toMatch(/^\/login\?return=[\w-]+$/)
    const cookie = await signIn(t.app, account)
    const back = await open(t, String(redirect.headers.location), cookie)
    expect(back.headers.location).toBe(link)
  })

  it('shows the application, the account, the scopes, and where the browser goes (2)', async () => {
    const { account, application, cookie } = await aVisitor({
      name: 'Wolf & Söhne',
      scopes: ['repo-delete:rw', 'account-email:r'],
      resourceScope: 'public',
    })
    const page = await open(t, authorizeLink(application), cookie)
    expect(page.statusCode).toBe(200)
    for (const text of [
      'Wolf &amp; Söhne',
      `/applications/${application.clientId}/logo`,
      application.website,
      application.description,
      account.username,
      'Not you?',
      'Delete your repositories and everything in them',
      'Can delete permanently',
      'Read-write',
      'See your verified email address',
      'Read-only',
      'Public repositories only',
      'app.example.com</strong>',
    ]) {
      expect(page.body).toContain(text)
    }
  })

  it('has the headers of a page that no other site may frame, and no form-action (41)', async () => {
    const { application, cookie } = await aVisitor()
    for (const url of [authorizeLink(application), '/oauth2/auth']) {
      const { headers } = await open(t, url, cookie)
      expect(headers).toMatchObject({
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
      })
      const policy = String(headers['content-security-policy'])
      expect(policy).toMatch(/^default-src 'none'/)
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).toContain("base-uri 'none'")
      expect(policy).not.toContain('form-action')
      expect(policy).not.toContain('script-src')
    }
  })

  it('uses the registered Redirect URL when none is given (11)', async () => {
    const redirect = await approve({ redirect_uri: null })
    expect(redirect.headers.location).toMatch(/^https:\/\/app\.example\.com\/callback\?code=svcc_/)
  })

  it.each(['https://app.example.com/other?x=1', 'https://APP.example.com:443/cb'])(
    'sends the browser to %s as it was given (12, 13)',
    async (redirect_uri) => {
      const redirect = await approve({ redirect_uri })
      expect(redirect.headers.location?.startsWith(redirect_uri)).toBe(true)
    },
  )

  it('accepts any port on loopback (24)', async () => {
    const { application, cookie } = await aVisitor({ redirectUri: 'http://127.0.0.1/cb' })
    const link = authorizeLink(application, { redirect_uri: 'http://127.0.0.1:51234/cb' })
    const redirect = await submitConsent(t, await open(t, link, cookie), cookie, 'approve')
    expect(redirect.headers.location).toMatch(/^http:\/\/127\.0\.0\.1:51234\/cb\?code=/)
  })

  it('keeps the query of the redirect byte by byte (27)', async () => {
    const redirect = await approve({ redirect_uri: 'https://app.example.com/cb?x=a%20b&y=%2B+' })
    expect(redirect.headers.location).toMatch(/^https:\/\/app\.example\.com\/cb\?x=a%20b&y=%2B\+&code=/)
  })

  it('returns no state when the request had none (4)', async () => {
    expect(responseOf(await approve({ state: null }))).not.toHaveProperty('state')
  })

  it('returns an empty state as it came; other empty parameters count as absent (5)', async () => {
    const redirect = await approve({ state: '', scope: '', redirect_uri: '', prompt: '', code_challenge: '' })
    expect(redirect.headers.location).toMatch(/&state=(?:&|$)/)
  })

  it.each([
    '&=#%+ "',
    '状態・état',
    'x'.repeat(2048),
    '{"a":[1,2]}',
    "a+b c%2Bd'!()*~",
    '\u0001\u007f\n',
    '\0',
    '<script>',
    '%zz',
  ])('returns state %j unchanged (6)', async (state) => {
    const redirect = await approve({ state })
    expect(responseOf(redirect)['state']).toBe(state)
  })

  it.each(['a+b', 'a%20b', '%7E~', '%ff%fe', '%zz', 'a=b=c'])(
    'returns state as it was encoded: %s (6)',
    async (encoded) => {
      const { application, cookie } = await aVisitor()
      const page = await open(t, `${authorizeLink(application)}&state=${encoded}`, cookie)
      const redirect = await submitConsent(t, page, cookie, 'approve')
      expect(redirect.headers.location).toContain(`&state=${encoded}&iss=`)
    },
  )

  it('ignores parameters that it does not know (32)', async () => {
    const { application, cookie } = await aVisitor()
    const link = `${authorizeLink(application)}&more=1&more=2&__proto__=x&%zz=1`
    expect((await open(t, link, cookie)).statusCode).toBe(200)
  })

  it('narrows the consent and the code to the requested scopes (33), or uses all registered ones (35)', async () => {
    const { application, cookie } = await aVisitor()
    for (const [scope, granted] of [
      ['registry-package:r account-email:r', ['registry-package:r', 'account-email:r']],
      [null, application.scopes],
    ] as const) {
      const page = await open(t, authorizeLink(application, { scope, prompt: 'consent' }), cookie)
      expect(page.body.includes('See your profile')).toBe(scope === null)
      const redirect = await submitConsent(t, page, cookie, 'approve')
      const { code = '' } = responseOf(redirect)
      expect((await storedCode(t.db, code))?.scopes).toEqual(granted)
    }
  })

  it('stores an S256 challenge with the code (36)', async () => {
    const redirect = await approve({ code_challenge: challenge, code_challenge_method: 'S256' })
    const { code = '' } = responseOf(redirect)
    expect(code).toMatch(/^svcc_/)
    expect((await storedCode(t.db, code))?.codeChallenge).toBe(challenge)
  })

  it.each(['OPTIONS', 'PUT', 'DELETE', 'PATCH'] as const)(
    'responds to %s with a 405 page and no CORS header (42)',
    async (method) => {
      const application = await anApplication(t.db)
      const refusal = await t.app.inject({
        method,
        url: authorizeLink(application),
        headers: { origin: 'https://app.example.com', 'access-control-request-method': 'GET' },
      })
      expect(refusal.statusCode).toBe(405)
      expect(refusal.headers['allow']).toBe('GET, HEAD, POST')
      expect(Object.keys(refusal.headers).filter((name) => name.startsWith('access-control-'))).toEqual([])
    },
  )

  it('does nothing on HEAD, also where GET would send a code (49)', async () => {
    const { application, cookie } = await aVisitor()
    await submitConsent(t, await open(t, authorizeLink(application), cookie), cookie, 'approve')
    const before = await countCodes()
    const head = await t.app.inject({ method: 'HEAD', url: authorizeLink(application), headers: { cookie } })
    expect(head.headers.location).toBeUndefined()
    expect(head.statusCode).toBe(200)
    expect(head.body).toBe('')
    expect(await countCodes()).toBe(before)
  })

  describe('where consent was given before (47)', () => {
    async function aConsent(scope: string | null = null) {
      const visitor = await aVisitor()
      const page = await open(t, authorizeLink(visitor.application, { scope }), visitor.cookie)
      await submitConsent(t, page, visitor.cookie, 'approve')
      return visitor
    }

    it('sends a code at once', async () => {
      const { application, cookie } = await aConsent()
      for (const parameters of [
        { state: 's' },
        { state: 's', redirect_uri: application.redirectUri },
        { state: 's', scope: 'registry-package:r' },
        { state: 's', prompt: 'none' },
      ]) {
        const redirect = await open(t, authorizeLink(application, parameters), cookie)
        expect(redirect.statusCode).toBe(302)
        expect(responseOf(redirect)).toEqual({
          code: expect.stringMatching(/^svcc_/),
          state: 's',
          iss: issuer,
        })
      }
    })

    it('asks again for another redirect_uri, and when the application requests it', async () => {
      const { application, cookie } = await aConsent()
      for (const parameters of [
        { redirect_uri: 'https://app.example.com/other' },
        { redirect_uri: 'https://app.example.com:443/callback' },
        { prompt: 'consent' },
      ]) {
        expect((await open(t, authorizeLink(application, parameters), cookie)).statusCode).toBe(200)
      }
    })

    it('asks again for more scopes, and then keeps two grants that each cover one request only', async () => {
      const { application, cookie, account } = await aConsent('account-email:r')
      const page = await open(t, authorizeLink(application, { scope: 'account-profile:r' }), cookie)
      expect(page.statusCode).toBe(200)
      await submitConsent(t, page, cookie, 'approve')
      const grants = await liveGrantsOf(t.db, account)
      expect(grants.map(({ scopes }) => scopes)).toEqual([['account-email:r'], ['account-profile:r']])
      const skipped = async (scope: string) =>
        (await open(t, authorizeLink(application, { scope }), cookie)).statusCode === 302
      expect(await skipped('account-email:r')).toBe(true)
      expect(await skipped('account-profile:r')).toBe(true)
      expect(await skipped('account-email:r account-profile:r')).toBe(false)
    })

    it('asks again when the only grant is from a release without grants: it may combine several consents', async () => {
      const { application, cookie, account } = await aConsent()
      await forgetWhenGranted(t.db, account)
      expect((await open(t, authorizeLink(application), cookie)).statusCode).toBe(200)
    })

    it('asks again when the resource scope has changed', async () => {
      const { application, cookie } = await aConsent()
      await changeRegistration(t.db, application, { resourceScope: 'public' })
      expect((await open(t, authorizeLink(application), cookie)).statusCode).toBe(200)
    })

    it('asks again after the authorization was withdrawn', async () => {
      const { application, cookie, account } = await aConsent()
      await endAuthorizationsOf(t.db, account)
      expect((await open(t, authorizeLink(application), cookie)).statusCode).toBe(200)
    })

    it('does not count what another account has granted', async () => {
      const { application } = await aConsent()
      const cookie = await signIn(t.app, await anAccount(t.db, { username: aName('other') }))
      expect((await open(t, authorizeLink(application), cookie)).statusCode).toBe(200)
      const redirect = await open(t, authorizeLink(application, { prompt: 'none' }), cookie)
      expect(responseOf(redirect)).toMatchObject({ error: 'consent_required' })
    })
  })
})

import { createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { addProviderSignIns, setProofAge, storedAccount } from '../../support/account-rows.ts'
import { aName, anAccount, csrfTokenIn, signIn } from '../../support/actors.ts'
import { useApp } from '../../support/app.ts'
import {
  openSignUp,
  problemOf,
  providerEnvironment,
  useIdentityProvider,
  usernameOf,
  Walker,
} from '../../support/identity-provider.ts'
import { anotherKey, type Lies, useLyingProvider } from '../../support/lying-provider.ts'
import { freePort } from '../../support/program.ts'
import { countRows, expire } from '../../support/rows.ts'

const [realPort, liarPort] = [await freePort(), await freePort()]
const acme = useIdentityProvider('acme', realPort, 'http://svc.test')
const liar = useLyingProvider('liar', liarPort)
const t = useApp({ ...openSignUp, ...acme.environment, ...providerEnvironment('liar', liarPort) })

/** Signs in at the lying provider. Returns the response of svc to the callback. */
async function signInAtLiar(browser: Walker) {
  return browser.signIn(liar, 'eve')
}

const notTrusted =
  'Liar sent a response that this server does not trust, so you are not signed in. Tell an administrator.'

describe('an ID token', () => {
  it('of the provider is accepted', async () => {
    liar.tell({ userInfo: { preferred_username: aName('eve') } })
    const browser = new Walker(t)
    expect((await signInAtLiar(browser)).statusCode).toBe(303)
    expect(await usernameOf(browser)).not.toBeNull()
  })

  const now = Math.floor(Date.now() / 1000)
  const lies: [string, Lies][] = [
    ['of another issuer', { claims: { iss: 'http://127.0.0.1:1' } }],
    ['for another client', { claims: { aud: 'other' } }],
    ['for many clients that names another one', { claims: { aud: ['svc', 'other'], azp: 'other' } }],
    ['with another nonce', { claims: { nonce: 'other' } }],
    ['without a nonce', { claims: { nonce: undefined } }],
    ['that has expired', { claims: { iat: now - 700, exp: now - 120 } }],
    ['without an end', { claims: { exp: undefined } }],
    ['of tomorrow', { claims: { nbf: now + 86_400 } }],
    ['signed with a key that is not published', { key: anotherKey }],
    ['with another signature', { token: (token) => `${token.slice(0, -8)}AAAAAAAA` }],
    ['with other claims than signed', { token: withSubject('somebody') }],
    ['without a signature', { header: { alg: 'none' } }],
    ['signed with the client secret', { token: withHmac }],
    ['of an unknown key', { header: { kid: 'two' } }],
    ['without a subject', { claims: { sub: undefined } }],
    ['with an empty subject', { claims: { sub: '' }, userInfo: { sub: '' } }],
    ['with a long subject', { claims: { sub: 'x'.repeat(256) }, userInfo: { sub: 'x'.repeat(256) } }],
    ['with a control character in the subject', { claims: { sub: 'a\0b' }, userInfo: { sub: 'a\0b' } }],
    ['that is none', { token: () => 'nonsense' }],
    ['for another person than UserInfo', { userInfo: { sub: 'ann' } }],
  ]

  it.each(lies)('%s is refused with a message', async (_what, lie) => {
    liar.tell(lie)
    const browser = new Walker(t)
    const end = await signInAtLiar(browser)
    expect([end.statusCode, problemOf(end)]).toEqual([502, notTrusted])
    expect(await usernameOf(browser)).toBeNull()
  })

  it('of a person who did not sign in again confirms no sensitive act', async () => {
    const username = aName('eve')
    liar.tell({ claims: { sub: username }, userInfo: { sub: username, preferred_username: username } })
    const browser = new Walker(t)
    await signInAtLiar(browser)
    await setProofAge(t.db, (await storedAccount(t.db, { username })) ?? expect.fail(), '1 hour')
    const confirm = async (auth_time: number | undefined) => {
      liar.tell({ claims: { sub: username, auth_time }, userInfo: { sub: username } })
      const csrf_token = csrfTokenIn(await browser.open('/settings/confirm-access'))
      const start = await browser.post('/login/oidc/liar/confirm', { csrf_token })
      return browser.open(await browser.signInThere(start, 'eve'))
    }
    const isConfirmed = async () => (await browser.open('/login/oidc/acme/link')).statusCode === 200
    // Signed in an hour ago, or at a time that the provider does not say.
    for (const time of [Math.floor(Date.now() / 1000) - 3600, undefined]) {
      const unproven = await confirm(time)
      expect(unproven.headers.location).toBe('/settings/confirm-access?unproven=liar')
      const page = await browser.open('/settings/confirm-access?unproven=liar')
      expect(problemOf(page)).toBe(
        'Liar did not say that you signed in again just now, so nothing was confirmed.',
      )
      expect(page.body).toContain('Ask an administrator for help: your account has no password')
      expect(await isConfirmed()).toBe(false)
    }
    expect((await confirm(Math.floor(Date.now() / 1000))).headers.location).toBe('/')
    expect(await isConfirmed()).toBe(true)
  })

  it.each([
    ['just now', true, 1],
    ['an hour ago', false, 3600],
    ['at a time that the provider does not say', false, undefined],
  ])('of a person who signed in there %s is a recent proof: %s', async (_when, isRecent, ago) => {
    const username = aName('eve')
    const auth_time = ago && Math.floor(Date.now() / 1000) - ago
    const claims = { sub: username, auth_time }
    liar.tell({ claims, userInfo: { sub: username, preferred_username: username } })
    const browser = new Walker(t)
    // With the account that it makes, and again.
    for (const _time of [1, 2]) {
      await signInAtLiar(browser)
      expect(await usernameOf(browser)).toBe(username)
      expect((await browser.open('/login/oidc/acme/link')).statusCode === 200).toBe(isRecent)
      const csrf_token = csrfTokenIn(await browser.open('/settings/account'))
      await browser.post('/logout', { csrf_token })
    }
  })

  it('is no recent proof of a person who chose a new account, unless they have just signed in', async () => {
    for (const [ago, isRecent] of [
      [1, true],
      [3600, false],
    ] as const) {
      const { username: taken } = await anAccount(t.db)
      const sub = aName('eve')
      const auth_time = Math.floor(Date.now() / 1000) - ago
      liar.tell({ claims: { sub, auth_time }, userInfo: { sub, preferred_username: taken } })
      const browser = new Walker(t)
      const choice = await browser.open(String((await signInAtLiar(browser)).headers.location))
      const fields = { csrf_token: csrfTokenIn(choice), decision: 'new', password: '' }
      const proof = /name="proof" value="([^"]+)"/.exec(choice.body)?.[1] ?? ''
      expect((await browser.post('/login/oidc/liar/account', { ...fields, proof })).statusCode).toBe(303)
      expect((await browser.open('/login/oidc/acme/link')).statusCode === 200).toBe(isRecent)
    }
  })

  it('of an earlier sign-in is refused', async () => {
    liar.tell({ userInfo: { preferred_username: aName('eve') } })
    await signInAtLiar(new Walker(t))
    const earlier = liar.tokens.at(-1) as string
    liar.tell({ token: () => earlier })
    const browser = new Walker(t)
    expect([(await signInAtLiar(browser)).statusCode, await usernameOf(browser)]).toEqual([502, null])
  })

  it('is not in the log, nor is any claim or code', async () => {
    liar.tell({ claims: { aud: 'other', email: 'secret-claim@example.com' } })
    await signInAtLiar(new Walker(t))
    const lines = t.log()
    expect(lines).toContain('a sign-in provider failed')
    expect(lines).not.toContain('secret-claim')
    expect(lines).not.toContain((liar.tokens.at(-1) as string).split('.')[1])
    expect(lines).not.toMatch(/code=|state=/)
  })
})

describe('a provider that does not keep to the protocol', () => {
  const json = { 'content-type': 'application/json' }
  const responds: [string, number, (path: string) => boolean, string][] = [
    ['an error page', 500, (path) => path === '/token', '<h1>Oops</h1>'],
    ['no JSON', 200, (path) => path === '/token', 'nonsense'],
    ['an array', 200, (path) => path === '/token', '[]'],
    ['no tokens', 200, (path) => path === '/token', '{}'],
    ['a redirect', 302, (path) => path === '/token', ''],
    ['no keys', 200, (path) => path === '/keys', '{"keys":[]}'],
    ['no UserInfo', 200, (path) => path === '/userinfo', 'null'],
    [
      'a response of two megabytes',
      200,
      (path) => path === '/userinfo',
      `{"a":"${'x'.repeat(2 * 1024 ** 2)}"}`,
    ],
    [
      'deep claims',
      200,
      (path) => path === '/userinfo',
      `{"sub":"eve","a":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
    ],
  ]

  it.each(responds)('such as by %s, never causes an internal error', async (_what, status, isLie, body) => {
    // An unknown key makes the library read the keys again.
    liar.tell({
      respond: (path, response) => {
        if (isLie(path)) response.writeHead(status, json).end(body)
        return isLie(path)
      },
    })
    const browser = new Walker(t)
    const { statusCode } = await signInAtLiar(browser)
    expect([303, 502]).toContain(statusCode)
  })

  it('treats claims of a wrong type as missing', async () => {
    const odd = { name: 5, email: ['a@b.example'], email_verified: 'yes', groups: { a: 1 }, nickname: null }
    const sub = aName('odd')
    liar.tell({ claims: { sub, ...odd }, userInfo: { sub, ...odd, preferred_username: '\u202E\u0000<b>"' } })
    const browser = new Walker(t)
    expect((await signInAtLiar(browser)).statusCode).toBe(303)
    expect(await usernameOf(browser)).toBe('b')
  })

  it('does not let UserInfo verify the email of the ID token', async () => {
    const sub = aName('two')
    liar.tell({
      claims: { sub, email: 'claimed@acme.example', email_verified: false },
      userInfo: { sub, email: 'own@acme.example', email_verified: true },
    })
    const browser = new Walker(t)
    await signInAtLiar(browser)
    const account = await storedAccount(t.db, { username: await usernameOf(browser) })
    expect(account).toMatchObject({ email: 'own@acme.example' })
  })
})

describe('the metadata of a provider', () => {
  const origin = 'https://elsewhere.example'
  const metadata: [string, Lies][] = [
    ['of another issuer', { metadata: { issuer: origin } }],
    ['without an authorization endpoint', { metadata: { authorization_endpoint: undefined } }],
    ['with a script as endpoint', { metadata: { authorization_endpoint: 'javascript:alert(1)' } }],
    ['over http elsewhere', { metadata: { authorization_endpoint: 'http://elsewhere.example/authorize' } }],
  ]

  // Each test starts a new server, because a server caches valid metadata.
  describe.each(metadata)('%s', (_what, lies) => {
    const fresh = useApp({ ...openSignUp, ...providerEnvironment('liar', liarPort) })

    it('is rejected, and requested again at the next sign-in', async () => {
      liar.tell(lies)
      const refused = await fresh.app.inject('/login/oidc/liar')
      expect([refused.statusCode, problemOf(refused)]).toEqual([502, notTrusted])
      liar.tell({})
      if (lies.metadata?.['issuer'] !== undefined) {
        expect((await fresh.app.inject('/login/oidc/liar')).statusCode).toBe(303)
      }
    })
  })

  describe('of a provider that does not respond', () => {
    const fresh = useApp({ ...openSignUp, ...providerEnvironment('liar', liarPort) })

    it('times out after 5 seconds, with one request for everybody who signs in', async () => {
      const before = liar.requests.length
      liar.tell({ respond: (path) => path.startsWith('/.well-known/') })
      const pages = await Promise.all([1, 2, 3].map(() => fresh.app.inject('/login/oidc/liar')))
      for (const page of pages) {
        expect([page.statusCode, problemOf(page)]).toEqual([
          503,
          'Liar does not respond at the moment. Try again later.',
        ])
      }
      expect(liar.requests.length - before).toBe(1)
    })
  })
})

describe('GET /login/oidc/<provider>/callback', () => {
  /** A sign-in that has returned from the provider. Returns the browser and the path of the callback. */
  async function aCallback() {
    const name = aName('eve')
    acme.people.set(name, { preferred_username: name })
    const browser = new Walker(t)
    return {
      name,
      browser,
      callback: await browser.signInThere(await browser.open('/login/oidc/acme'), name),
    }
  }
  const replace = (callback: string, name: string, value: string | null) => {
    const url = new URL(callback, 'http://svc.test')
    if (value === null) url.searchParams.delete(name)
    else url.searchParams.set(name, value)
    return `${url.pathname}${url.search}`
  }
  const outOfDate =
    'This sign-in with Acme was already used, has expired, or began in another browser. Try again.'

  it('works once, in the browser that began the sign-in', async () => {
    const { name, browser, callback } = await aCallback()
    const stranger = new Walker(t)
    // This browser has started its own sign-in.
    await stranger.open('/login/oidc/acme')
    const refused = await stranger.open(callback)
    expect([refused.statusCode, problemOf(refused)]).toEqual([400, outOfDate])
    expect((await browser.open(callback)).statusCode).toBe(303)
    expect(await usernameOf(browser)).toBe(name)
    // When the callback is reloaded, a signed-in browser is redirected. After a sign-out, the callback is out of date.
    expect((await browser.open(callback)).headers.location).toBe('/')
    expect(await usernameOf(stranger)).toBeNull()
  })

  it('is used once when the browser sends it twice at once', async () => {
    const { name, browser, callback } = await aCallback()
    const both = await Promise.all([browser.open(callback), browser.open(callback)])
    expect(both.map(({ statusCode }) => String(statusCode)).toSorted()).toEqual(['303', '400'])
    expect(await usernameOf(browser)).toBe(name)
  })

  it.each([
    ['another state', 'state', 'x'.repeat(43)],
    ['no state', 'state', null],
    ['a long state', 'state', 'x'.repeat(6000)],
  ])('refuses %s', async (_what, name, value) => {
    const { browser, callback } = await aCallback()
    const refused = await browser.open(replace(callback, name, value))
    expect([refused.statusCode, problemOf(refused)]).toEqual([400, outOfDate])
  })

  it.each([
    ['another code', 'code', 'other', 400],
    ['no code', 'code', null, 502],
    ['another issuer', 'iss', 'http://127.0.0.1:1', 502],
    ['no issuer, although the provider promises it', 'iss', null, 502],
  ])('refuses %s', async (_what, name, value, status) => {
    const { browser, callback } = await aCallback()
    const refused = await browser.open(replace(callback, name, value))
    expect([refused.statusCode, problemOf(refused)]).toEqual([status, expect.any(String)])
    expect(await usernameOf(browser)).toBeNull()
    // The sign-in is used up, so the right response comes too late.
    expect(problemOf(await browser.open(callback))).toBe(outOfDate)
  })

  it('refuses the response of another provider (mix-up)', async () => {
    const { browser, callback } = await aCallback()
    const refused = await browser.open(callback.replace('/acme/', '/liar/'))
    expect([refused.statusCode, await usernameOf(browser)]).toEqual([400, null])
  })

  it('refuses a repeated parameter', async () => {
    const { browser, callback } = await aCallback()
    expect((await browser.open(`${callback}&state=x`)).statusCode).toBe(400)
    expect((await browser.open(`${callback}&code=x`)).statusCode).toBe(502)
  })

  it('refuses a sign-in that took too long', async () => {
    const { browser, callback } = await aCallback()
    await expire(t.db, 'provider_sign_in')
    expect(problemOf(await browser.open(callback))).toBe(outOfDate)
  })

  it('says that the provider refused, without its text', async () => {
    const browser = new Walker(t)
    const end = await browser.signIn(acme, 'nobody')
    expect([end.statusCode, problemOf(end)]).toEqual([
      403,
      'Acme did not sign you in: the request was cancelled or refused there.',
    ])
    expect(end.body).not.toContain('a text of the provider')
    const start = await browser.open('/login/oidc/acme')
    const state = new URL(String(start.headers.location)).searchParams.get('state') ?? ''
    const query = new URLSearchParams({ state, error: '<script>', iss: acme.issuer })
    const odd = await browser.open(`/login/oidc/acme/callback?${query}`)
    expect([odd.statusCode, odd.body.includes('<script>')]).toEqual([502, false])
  })

  it('works in two tabs at the same time', async () => {
    const name = aName('eve')
    acme.people.set(name, { preferred_username: name })
    const browser = new Walker(t)
    const starts = [await browser.open('/login/oidc/acme'), await browser.open('/login/oidc/acme')]
    for (const start of starts.toReversed()) {
      const end = await browser.open(await browser.signInThere(start, name))
      expect([end.statusCode, end.headers.location]).toEqual([303, '/'])
    }
  })

  it('ends a session that the browser started in the meantime', async () => {
    const { name, browser, callback } = await aCallback()
    const cookie = await signIn(t.app, await anAccount(t.db))
    const both = new Walker(t, `${browser.cookie}; ${cookie}`)
    expect((await both.open(callback)).statusCode).toBe(303)
    expect(await usernameOf(both)).toBe(name)
    expect(await usernameOf(new Walker(t, cookie))).toBeNull()
  })
})

describe('GET /login/oidc/<provider>', () => {
  it('redirects at once when the browser is signed in', async () => {
    const browser = new Walker(t, await signIn(t.app, await anAccount(t.db)))
    expect((await browser.open('/login/oidc/acme')).headers.location).toBe('/')
  })

  it('asks with PKCE, a nonce, a state and the exact redirect URI', async () => {
    const { headers } = await t.app.inject('/login/oidc/acme')
    const { searchParams } = new URL(String(headers.location))
    expect(Object.fromEntries(searchParams)).toEqual({
      client_id: 'svc',
      // It makes the provider say when the person signed in there, and asks nobody again before a year.
      max_age: '31536000',
      response_type: 'code',
      redirect_uri: 'http://svc.test/login/oidc/acme/callback',
      scope: 'openid profile email',
      code_challenge: expect.stringMatching(/^[\w-]{43}$/),
      code_challenge_method: 'S256',
      nonce: expect.stringMatching(/^[\w-]{43}$/),
      state: expect.stringMatching(/^[\w-]{43}$/),
    })
  })

  it.each(['https://evil.example', '/settings', `${'x'.repeat(43)}&return=y`])(
    'redirects to no other site with return=%s',
    async (id) => {
      const name = aName('eve')
      acme.people.set(name, { preferred_username: name })
      const browser = new Walker(t)
      const start = await browser.open(`/login/oidc/acme?return=${encodeURIComponent(id)}`)
      const end = await browser.open(await browser.signInThere(start, name))
      expect(end.headers.location).toBe('/')
    },
  )

  it('keeps a bounded number of sign-ins for a network', async () => {
    await addProviderSignIns(t.db, 'acme', '127.0.0.1', 1200)
    await t.app.inject('/login/oidc/acme')
    expect(await countRows(t.db, 'provider_sign_in')).toBeLessThanOrEqual(1000)
  })
})

function withSubject(sub: string) {
  return (token: string) => {
    const [header, claims = '', signature] = token.split('.')
    const changed = { ...JSON.parse(Buffer.from(claims, 'base64url').toString()), sub }
    return [header, Buffer.from(JSON.stringify(changed)).toString('base64url'), signature].join('.')
  }
}

function withHmac(token: string): string {
  const claims = token.split('.')[1]
  const input = `${Buffer.from('{"alg":"HS256"}').toString('base64url')}.${claims}`
  const secret = t.config.providers.find(({ name }) => name === 'liar')?.clientSecret ?? ''
  return `${input}.${createHmac('sha256', secret).update(input).digest('base64url')}`
}

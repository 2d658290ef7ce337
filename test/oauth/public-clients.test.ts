import { createHash } from 'node:crypto'
import { describe, expect, it, vi } from 'vitest'
import { makeSecret } from '../../src/domain/secrets.ts'
import { anAccount, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { authorizeLink, open, responseOf, submitConsent } from '../support/browse.ts'
import { type ApplicationActor, anApplication, basicOf } from '../support/oauth-actors.ts'
import { changeRegistration, countUsedGrants, liveGrantsOf } from '../support/oauth-rows.ts'
import { ask, askAsPublic, pass, postForm, works } from '../support/token-client.ts'

const verifier = 'a-verifier-of-a-public-client-0123456789-abcdef'
const pkce = {
  code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  code_challenge_method: 'S256',
}

describe('a public client', () => {
  const t = useApp()

  const aPublicClient = (differences: Parameters<typeof anApplication>[1] = {}) =>
    anApplication(t.db, { isPublic: true, redirectUri: 'http://127.0.0.1/callback', ...differences })

  /** A person who has signed in, and a public client. */
  async function aVisitor(differences: Parameters<typeof anApplication>[1] = {}) {
    const application = await aPublicClient(differences)
    const account = await anAccount(t.db)
    const cookie = await signIn(t.app, account)
    const ask = (parameters: Record<string, string> = {}) =>
      open(t, authorizeLink(application, { ...pkce, ...parameters }), cookie)
    const approve = async (parameters: Record<string, string> = {}) =>
      responseOf(await submitConsent(t, await ask(parameters), cookie, 'approve'))['code'] ?? ''
    return { application, account, ask, approve }
  }

  const exchange = (application: ApplicationActor, code: string, form: Record<string, string> = {}) =>
    askAsPublic(t, application, 'token', {
      grant_type: 'authorization_code',
      code,
      code_verifier: verifier,
      ...form,
    })
  const refresh = (application: ApplicationActor, refresh_token: string) =>
    askAsPublic(t, application, 'token', { grant_type: 'refresh_token', refresh_token })

  it.each([
    ['no PKCE', { code_challenge: '', code_challenge_method: '' }],
    ['the method plain', { code_challenge_method: 'plain' }],
  ])('gets invalid_request for %s (OPENID 202)', async (_what, parameters) => {
    const { ask } = await aVisitor()
    const response = await ask({ state: 's', ...parameters })
    expect(response.statusCode).toBe(302)
    expect(responseOf(response)).toMatchObject({ error: 'invalid_request', state: 's' })
  })

  it('gets, refreshes and revokes a pair with its client_id only (OPENID 203)', async () => {
    const { application, approve } = await aVisitor()
    const first = await exchange(application, await approve())
    expect(first.statusCode).toBe(200)
    const second = await refresh(application, first.json().refresh_token)
    expect(second.statusCode).toBe(200)
    expect(await works(t, second.json().access_token)).toBe(true)
    const { refresh_token: token } = second.json()
    expect((await askAsPublic(t, application, 'revoke', { token })).json()).toEqual({})
    expect(await works(t, second.json().access_token)).toBe(false)
  })

  it('gets invalid_client with any secret, and the code stays valid (OPENID 203)', async () => {
    const { application, approve } = await aVisitor()
    const code = await approve()
    const form = { grant_type: 'authorization_code', code, code_verifier: verifier }
    const refusals = [
      await exchange(application, code, { client_secret: application.clientSecret }),
      await exchange(application, code, { client_secret: application.clientId }),
      await ask(t, application, 'token', form),
    ]
    expect(refusals.map((one) => [one.statusCode, one.json().error])).toEqual(
      Array.from({ length: 3 }, () => [401, 'invalid_client']),
    )
    const withoutPassword = { authorization: basicOf(application.clientId, '') }
    const accepted = await postForm(t, '/oauth2/token', new URLSearchParams(form).toString(), withoutPassword)
    expect(accepted.statusCode).toBe(200)
  })

  it('cannot exchange a code without PKCE from the time when it had a secret (OPENID 202)', async () => {
    const redirectUri = 'https://app.example.com/callback'
    const { application, approve } = await aVisitor({ isPublic: false, redirectUri })
    const codes = [
      await approve({ code_challenge: '', code_challenge_method: '' }),
      await approve({ prompt: 'consent' }),
    ]
    await changeRegistration(t.db, application, { isPublic: true })
    const [bare = '', bound = ''] = codes
    const response = await exchange(application, bare, { code_verifier: '' })
    expect([response.statusCode, response.json().error]).toEqual([400, 'invalid_grant'])
    expect((await exchange(application, bound)).statusCode).toBe(200)
  })

  it('needs the right verifier', async () => {
    const { application, approve } = await aVisitor()
    const wrong = { code_verifier: `${verifier}x` }
    expect((await exchange(application, await approve(), wrong)).json().error).toBe('invalid_grant')
  })

  it('is nothing that another client can be without its secret (OPENID 204)', async () => {
    const application = await anApplication(t.db)
    for (const endpoint of ['token', 'revoke', 'introspect'] as const) {
      const form = { grant_type: 'authorization_code', code: makeSecret('code'), token: makeSecret('access') }
      const response = await askAsPublic(t, application, endpoint, form)
      expect([response.statusCode, response.json().error]).toEqual([401, 'invalid_client'])
    }
  })

  it('rotates with the grace period, and a reuse after it ends the tokens of this machine only (OPENID 205)', async () => {
    const { application, approve } = await aVisitor()
    const first = (await exchange(application, await approve())).json()
    const other = (await exchange(application, await approve())).json()
    const second = (await refresh(application, first.refresh_token)).json()
    const again = (await refresh(application, first.refresh_token)).json()
    expect(again).toEqual({ ...second, expires_in: again.expires_in })
    await pass(t.db, 301)
    expect((await refresh(application, first.refresh_token)).json().error).toBe('invalid_grant')
    expect(await works(t, second.access_token)).toBe(false)
    expect((await refresh(application, second.refresh_token)).json().error).toBe('invalid_grant')
    expect(await works(t, other.access_token)).toBe(true)
    expect((await refresh(application, other.refresh_token)).statusCode).toBe(200)
  })

  it('returns to any port of its loopback, and to a private-use scheme (OPENID 206)', async () => {
    const loopback = await aVisitor()
    const redirect_uri = 'http://127.0.0.1:43210/callback'
    const pair = await exchange(loopback.application, await loopback.approve({ redirect_uri }), {
      redirect_uri,
    })
    expect(pair.statusCode).toBe(200)
    expect((await loopback.ask({ redirect_uri: 'http://127.0.0.1/other' })).statusCode).toBe(400)

    const app = await aVisitor({ redirectUri: 'com.example.app:/cb' })
    const page = await app.ask()
    expect(page.body).toContain('<strong>the app com.example.app on this device</strong>')
    expect((await exchange(app.application, await app.approve())).statusCode).toBe(200)
  })

  it('cannot introspect (OPENID 207)', async () => {
    const { application, approve } = await aVisitor()
    const { access_token: token } = (await exchange(application, await approve())).json()
    expect((await askAsPublic(t, application, 'introspect', { token })).statusCode).toBe(401)
    const server = await anApplication(t.db, { isResourceServer: true })
    expect((await ask(t, server, 'introspect', { token })).json()).toMatchObject({ active: true })
  })

  it.each([
    ['http://127.0.0.1/callback', 200],
    ['com.example.app:/cb', 200],
    ['https://app.example.com/callback', 302],
  ])(
    'which returns to %s gets %d for a request that is covered (OPENID 209)',
    async (redirectUri, status) => {
      const { ask, approve } = await aVisitor({ redirectUri })
      await approve()
      expect((await ask()).statusCode).toBe(status)
      const { error } = responseOf(await ask({ prompt: 'none' }))
      expect(error).toBe(status === 302 ? undefined : 'consent_required')
    },
  )

  it('has at most 20 live grants of an account, and the longest unused one ends (OPENID 210)', async () => {
    const { application, account, approve } = await aVisitor()
    const codes: string[] = []
    for (let n = 0; n < 20; n += 1) codes.push(await approve())
    const [first = '', second = '', third = ''] = codes
    // The first one is used, so the second one is the longest unused.
    const pair = (await exchange(application, first)).json()
    await vi.waitUntil(async () => (await countUsedGrants(t.db, account)) === 1, 60_000)
    await approve()
    expect(await works(t, pair.access_token)).toBe(true)
    expect((await exchange(application, second)).json().error).toBe('invalid_grant')
    expect((await exchange(application, third)).statusCode).toBe(200)
    expect(await liveGrantsOf(t.db, account)).toHaveLength(20)
  })

  it('ends the oldest grant, although the use of others was stored after the newest consents (OPENID 210)', async () => {
    const { application, account, approve } = await aVisitor()
    const codes: string[] = []
    for (let n = 0; n < 20; n += 1) codes.push(await approve())
    const tokens: string[] = []
    const exchangeNext = async () =>
      tokens.push((await exchange(application, codes[tokens.length] ?? '')).json().access_token)
    while (tokens.length < 10) await exchangeNext()
    await vi.waitUntil(async () => (await countUsedGrants(t.db, account)) === 10, 60_000)
    while (tokens.length < 20) await exchangeNext()
    await approve()
    const alive = await Promise.all(tokens.map((token) => works(t, token)))
    expect(alive).toEqual([false, ...Array.from({ length: 19 }, () => true)])
  })

  it('ends no grants of other clients', async () => {
    const { account, approve } = await aVisitor({
      isPublic: false,
      redirectUri: 'https://app.example.com/cb',
    })
    for (let n = 0; n < 21; n += 1) await approve({ prompt: 'consent' })
    expect(await liveGrantsOf(t.db, account)).toHaveLength(21)
  })
})

import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { setDisabled } from '../../src/accounts/accounts.ts'
import { operator } from '../../src/domain/principal.ts'
import { makeSecret } from '../../src/domain/secrets.ts'
import { setApplicationStatus } from '../../src/oauth/applications.ts'
import { useApp } from '../support/app.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { endAuthorization } from '../support/oauth-rows.ts'
import { anAuthorizedApplication, ask, pass, works } from '../support/token-client.ts'

const verifier = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
const codeChallenge = createHash('sha256').update(verifier).digest('base64url')

describe('POST /oauth2/token with grant_type=authorization_code', () => {
  const t = useApp()

  it('returns a pair, in the form of SPEC 4.2 (OAUTH 51, 52, 53, 84)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const response = await exchange(await newCode())
    expect(response.statusCode).toBe(200)
    expect(response.headers).toMatchObject({
      'content-type': 'application/json;charset=UTF-8',
      'cache-control': 'no-store',
      pragma: 'no-cache',
    })
    expect(response.json()).toEqual({
      access_token: expect.stringMatching(/^svca_[0-9A-Za-z]{49}$/),
      token_type: 'bearer',
      expires_in: 28_800,
      refresh_token: expect.stringMatching(/^svcr_[0-9A-Za-z]{49}$/),
      scope: 'account-profile:r account-email:r registry-package:rw',
    })
  })

  it('refuses a second use, and revokes the tokens of the first one (OAUTH 85)', async () => {
    const { exchange, refresh, newCode, tokens } = await anAuthorizedApplication(t)
    const code = await newCode()
    const first = (await exchange(code)).json()
    const second = (await refresh(first.refresh_token)).json()
    const other = await tokens()
    await pass(t.db, 4)
    const response = await exchange(code)
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_grant')
    expect(await works(t, first.access_token)).toBe(false)
    expect(await works(t, second.access_token)).toBe(false)
    expect((await refresh(second.refresh_token)).json().error).toBe('invalid_grant')
    expect(await works(t, other.access_token)).toBe(true)
  })

  it('lets one of twenty racing requests win, and leaves its pair alive (OAUTH 86)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const code = await newCode()
    const responses = await Promise.all(Array.from({ length: 20 }, () => exchange(code)))
    const won = responses.filter(({ statusCode }) => statusCode === 200)
    expect(won).toHaveLength(1)
    const lost = responses.filter(({ statusCode }) => statusCode !== 200)
    expect(lost.map((response) => response.json().error)).toEqual(Array(19).fill('invalid_grant'))
    expect(await works(t, won[0]?.json().access_token)).toBe(true)
  })

  it('refuses a code older than ten minutes (OAUTH 87)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const code = await newCode()
    await pass(t.db, 600)
    const response = await exchange(code)
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_grant')
  })

  it('refuses the code of another application, and the code stays valid (OAUTH 88)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const thief = await anApplication(t.db)
    const code = await newCode()
    const steal = () => ask(t, thief, 'token', { grant_type: 'authorization_code', code })
    expect((await steal()).json().error).toBe('invalid_grant')
    const mine = await exchange(code)
    expect(mine.statusCode).toBe(200)
    await pass(t.db, 60)
    expect((await steal()).json().error).toBe('invalid_grant')
    expect(await works(t, mine.json().access_token)).toBe(true)
  })

  it.each([
    ['accepts the redirect_uri of the request (OAUTH 89)', 'https://app.example.com/cb?x=1', 200],
    ['refuses another redirect_uri (OAUTH 90)', 'https://app.example.com/cb?x=2', 400],
    ['refuses one that only looks the same (OAUTH 90)', 'https://APP.example.com/cb?x=1', 400],
    ['accepts none, because it is optional (SPEC 4.2, OAUTH 91)', '', 200],
  ])('%s', async (_what, redirectUri, status) => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const code = await newCode({ redirectUri: 'https://app.example.com/cb?x=1' })
    const response = await exchange(code, { redirect_uri: redirectUri })
    expect(response.statusCode).toBe(status)
    if (status === 400) {
      expect(response.json().error).toBe('invalid_grant')
      expect((await exchange(code)).statusCode).toBe(200)
    }
  })

  it('accepts the registered redirect_uri, and no other, when the request left it out (OAUTH 92)', async () => {
    const { exchange, newCode, application } = await anAuthorizedApplication(t)
    const code = await newCode()
    expect((await exchange(code, { redirect_uri: `${application.redirectUri}/` })).statusCode).toBe(400)
    expect((await exchange(code, { redirect_uri: application.redirectUri })).statusCode).toBe(200)
  })

  it('requires a code (OAUTH 93)', async () => {
    const { exchange } = await anAuthorizedApplication(t)
    const response = await exchange('')
    expect(response.statusCode).toBe(400)
    expect(response.json()).toEqual({
      error: 'invalid_request',
      error_description: 'The parameter code is missing.',
    })
  })

  it.each(['x', makeSecret('code'), makeSecret('access'), '…', 'x'.repeat(60_000)])(
    'refuses garbage (OAUTH 94): %#',
    async (code) => {
      const { exchange } = await anAuthorizedApplication(t)
      const response = await exchange(code)
      expect(response.statusCode).toBe(400)
      expect(response.json().error).toBe('invalid_grant')
    },
  )

  it('accepts the right code_verifier (OAUTH 95)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const code = await newCode({ codeChallenge })
    expect((await exchange(code, { code_verifier: verifier })).statusCode).toBe(200)
  })

  it('refuses a wrong or missing code_verifier, and the code stays valid (OAUTH 96)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const code = await newCode({ codeChallenge })
    for (const wrong of ['', 'x', verifier.toLowerCase(), codeChallenge, 'é'.repeat(43)]) {
      const response = await exchange(code, { code_verifier: wrong })
      expect(response.statusCode).toBe(400)
      expect(response.json().error).toBe('invalid_grant')
    }
    expect((await exchange(code, { code_verifier: verifier })).statusCode).toBe(200)
  })

  it('refuses a code_verifier for a code without challenge (OAUTH 97)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const response = await exchange(await newCode(), { code_verifier: verifier })
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_grant')
  })

  it('requires the client secret also with PKCE (OAUTH 98)', async () => {
    const { newCode, application } = await anAuthorizedApplication(t)
    const code = await newCode({ codeChallenge })
    const form = { grant_type: 'authorization_code', code, code_verifier: verifier }
    const response = await ask(t, { basic: 'Bearer x' }, 'token', {
      ...form,
      client_id: application.clientId,
    })
    expect(response.statusCode).toBe(401)
    expect(response.json().error).toBe('invalid_client')
  })

  it('ignores a scope (OAUTH 99)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const code = await newCode({ scopes: ['account-profile:r'] })
    const response = await exchange(code, { scope: 'repo-delete:rw nonsense' })
    expect(response.json().scope).toBe('account-profile:r')
  })

  it('refuses the code of an account that was disabled after the consent (OAUTH 100)', async () => {
    const { exchange, newCode, account } = await anAuthorizedApplication(t)
    const code = await newCode()
    await setDisabled(t.db, operator, account.id, true)
    const response = await exchange(code)
    expect(response.statusCode).toBe(400)
    expect(response.json().error).toBe('invalid_grant')
  })

  it('refuses a suspended application, and its codes also after it is approved again (OAUTH 80, 100)', async () => {
    const { exchange, newCode, application } = await anAuthorizedApplication(t)
    const code = await newCode()
    await setApplicationStatus(t.db, application.clientId, 'suspended')
    const response = await exchange(code)
    expect(response.statusCode).toBe(401)
    expect(response.json().error).toBe('invalid_client')
    await setApplicationStatus(t.db, application.clientId, 'approved')
    expect((await exchange(code)).json().error).toBe('invalid_grant')
  })

  it('refuses the code of an authorization that was withdrawn', async () => {
    const { exchange, newCode, authorization } = await anAuthorizedApplication(t)
    const code = await newCode()
    await endAuthorization(t.db, authorization)
    expect((await exchange(code)).json().error).toBe('invalid_grant')
  })

  it('ignores authorization_details (OAUTH 139)', async () => {
    const { exchange, newCode } = await anAuthorizedApplication(t)
    const response = await exchange(await newCode(), { authorization_details: '[{}]' })
    expect(response.statusCode).toBe(200)
  })
})

import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { anAccount, password, signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { refuseNewPairs } from '../support/broken-schema.ts'
import { authorizeLink, hiddenFields, open, responseOf, submitConsent } from '../support/browse.ts'
import { anApplication, basicOf } from '../support/oauth-actors.ts'
import { ask, postForm, tokenClient, works } from '../support/token-client.ts'

describe('the log of a whole authorization', () => {
  const t = useApp({ LOG_LEVEL: 'trace' })

  it('holds no code, token, secret, password, cookie or state', async () => {
    const account = await anAccount(t.db)
    const application = await anApplication(t.db)
    const client = tokenClient(t, application)
    const state = 'state-that-nobody-else-knows'
    const verifier = 'verifier-that-nobody-else-knows-0123456789abcdef'
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const link = authorizeLink(application, {
      state,
      code_challenge: challenge,
      code_challenge_method: 'S256',
    })

    await open(t, link)
    const cookie = await signIn(t.app, account)
    const page = await open(t, link, cookie)
    const { code = '' } = responseOf(await submitConsent(t, page, cookie, 'approve'))
    await client.exchange(code)
    const old = (await client.exchange(code, { code_verifier: verifier })).json()
    const next = (await client.refresh(old.refresh_token)).json()
    await client.refresh(old.refresh_token)
    await client.exchange(code, { code_verifier: verifier })
    await ask(t, application, 'introspect', { token: next.access_token })
    expect(await works(t, next.access_token)).toBe(true)
    await open(t, `/api/user?access_token=${next.access_token}`)
    await open(t, `/oauth2/%zz?state=${state}&code=${code}`)
    await postForm(t, '/oauth2/token', `client_secret=${application.clientSecret}&code=${code}&%zz`)
    await postForm(t, '/oauth2/token', `grant_type=${code}`, { authorization: application.basic })
    await postForm(t, '/oauth2/revoke', `token=${old.access_token}`, {
      authorization: basicOf(application.clientId, `${application.clientSecret}x`),
    })
    await client.revoke(next.refresh_token)
    // Errors of the database must not be logged with secrets either.
    await refuseNewPairs(t.db)
    const again = await submitConsent(t, await open(t, link, cookie), cookie, 'approve')
    const { code: lastCode = '' } = responseOf(again)
    expect((await client.exchange(lastCode, { code_verifier: verifier })).statusCode).toBe(500)

    const log = t.log()
    expect(log).toContain('/oauth2/token')
    expect(log).toContain('nothing_fits')
    const secrets = {
      state,
      verifier,
      challenge,
      password,
      code,
      lastCode,
      clientSecret: application.clientSecret,
      basic: application.basic.slice(6),
      access: old.access_token,
      refresh: old.refresh_token,
      nextAccess: next.access_token,
      nextRefresh: next.refresh_token,
      csrf: hiddenFields(page).csrf_token,
      request: hiddenFields(page).request,
      ...Object.fromEntries(cookie.split('; ').map((one, i) => [`cookie ${i}`, one.split('=')[1] ?? ''])),
    }
    for (const [name, secret] of Object.entries(secrets)) {
      expect(secret.length, name).toBeGreaterThan(10)
      expect(log.includes(secret), name).toBe(false)
      expect(log.includes(hexOfHash(secret)), `hash of ${name}`).toBe(false)
    }
  })
})

function hexOfHash(secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

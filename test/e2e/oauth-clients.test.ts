import { describe, expect, it } from 'vitest'
import { anAccount, signIn } from '../support/actors.ts'
import { open, submitConsent } from '../support/browse.ts'
import { useListeningApp } from '../support/listening.ts'
import { anApplication } from '../support/oauth-actors.ts'
import { arctic } from '../support/oauth-clients/arctic.ts'
import { badgateway } from '../support/oauth-clients/badgateway.ts'
import type { ClientLibrary } from '../support/oauth-clients/client.ts'
import { oauth4webapi } from '../support/oauth-clients/oauth4webapi.ts'
import { openidClient } from '../support/oauth-clients/openid-client.ts'
import { passport } from '../support/oauth-clients/passport.ts'
import { hasPythonModule, pythonClient } from '../support/oauth-clients/python.ts'
import { simpleOauth2 } from '../support/oauth-clients/simple-oauth2.ts'
import { freePort } from '../support/program.ts'
import { works } from '../support/token-client.ts'

const port = await freePort()

/** Real client libraries over HTTP, without changes. Libraries that are not installed are skipped by name. */
const libraries: { name: string; library: ClientLibrary; isMissing?: boolean }[] = [
  { name: 'oauth4webapi', library: oauth4webapi },
  { name: 'openid-client', library: openidClient },
  { name: 'simple-oauth2', library: simpleOauth2 },
  { name: '@badgateway/oauth2-client', library: badgateway },
  { name: 'arctic', library: arctic },
  { name: 'passport-oauth2', library: passport },
  {
    name: 'authlib (python3-authlib is needed)',
    library: pythonClient('authlib'),
    isMissing: !hasPythonModule('authlib'),
  },
  {
    name: 'requests-oauthlib (python3-requests-oauthlib is needed)',
    library: pythonClient('requests_oauthlib'),
    isMissing: !hasPythonModule('requests_oauthlib'),
  },
]

describe.each(libraries)('an application written with $name', ({ library, isMissing = false }) => {
  const t = useListeningApp(port)

  it.skipIf(isMissing)('is authorized, exchanges, refreshes, and revokes where it can', async () => {
    const issuer = `http://127.0.0.1:${port}`
    const redirectUri = 'http://127.0.0.1:49152/callback'
    const application = await anApplication(t.db, { redirectUri })
    const client = await library({ issuer, ...application })

    const cookie = await signIn(t.app, await anAccount(t.db))
    const link = (await client.begin()).replace(issuer, '')
    const page = await open(t, link, cookie)
    const redirect = await submitConsent(t, page, cookie, 'approve')

    const first = await client.finish(String(redirect.headers.location))
    expect(await works(t, first.accessToken)).toBe(true)
    const second = await client.refresh()
    expect(second.refreshToken).not.toBe(first.refreshToken)
    expect(await works(t, second.accessToken)).toBe(true)
    if (!client.revoke) return
    await client.revoke()
    expect(await works(t, second.accessToken)).toBe(false)
    await expect(client.refresh()).rejects.toThrow()
  })
})

import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { beforeAll, describe, expect, it } from 'vitest'
import { anAccount, signIn } from '../support/actors.ts'
import { followAndApprove, open, submitConsent } from '../support/browse.ts'
import { useListeningApp } from '../support/listening.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { usePassportApp } from '../support/passport-app.ts'
import { freePort } from '../support/program.ts'

const [port, appPort] = [await freePort(), await freePort()]
const issuer = `http://127.0.0.1:${port}`
const t = useListeningApp(port)

let application: ApplicationActor
let cookie: string
let account: { id: string; username: string }
beforeAll(async () => {
  application = await anApplication(t.db, {
    scopes: ['openid', 'profile', 'email'],
    redirectUri: 'http://127.0.0.1/callback',
  })
  account = await anAccount(t.db, { displayName: 'Ann', email: 'ann@example.com' })
  cookie = await signIn(t.app, account)
})

/** Opens a link, and agrees. */
const approve = (link: string) => followAndApprove(t, link, cookie)

describe('openid-client', () => {
  it('discovers svc, signs a person in, reads the claims and refreshes (OPENID 241–245, 254)', async () => {
    const svc = await openid.discovery(
      new URL(issuer),
      application.clientId,
      application.clientSecret,
      undefined,
      { execute: [openid.allowInsecureRequests] },
    )
    expect(svc.serverMetadata().supportsPKCE()).toBe(true)
    const [state, nonce, verifier] = [
      openid.randomState(),
      openid.randomNonce(),
      openid.randomPKCECodeVerifier(),
    ]
    const link = openid.buildAuthorizationUrl(svc, {
      redirect_uri: application.redirectUri,
      scope: 'openid profile email',
      state,
      nonce,
      max_age: '3600',
      code_challenge: await openid.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    })
    const checks = {
      expectedState: state,
      expectedNonce: nonce,
      pkceCodeVerifier: verifier,
      maxAge: 3600,
      idTokenExpected: true,
    }
    const tokens = await openid.authorizationCodeGrant(svc, await approve(link.href), checks)
    const sub = tokens.claims()?.sub ?? ''
    expect(sub).toBe(account.id)
    const person = await openid.fetchUserInfo(svc, tokens.access_token, sub)
    expect(person).toMatchObject({ name: 'Ann', email: 'ann@example.com', email_verified: false })
    const refreshed = await openid.refreshTokenGrant(svc, tokens.refresh_token ?? '')
    expect(refreshed.claims()).toMatchObject({ sub, auth_time: tokens.claims()?.auth_time })
    expect(refreshed.claims()?.['nonce']).toBeUndefined()
  })
})

describe('oauth4webapi', () => {
  const insecure = { [oauth.allowInsecureRequests]: true }

  it('validates the ID token with its signature, nonce and age, and the userinfo response', async () => {
    const discovery = await oauth.discoveryRequest(new URL(issuer), insecure)
    const server = await oauth.processDiscoveryResponse(new URL(issuer), discovery)
    const client: oauth.Client = { client_id: application.clientId, require_auth_time: true }
    const authentication = oauth.ClientSecretPost(application.clientSecret)
    const [state, nonce] = [oauth.generateRandomState(), oauth.generateRandomNonce()]
    const link = new URL(String(server.authorization_endpoint))
    link.search = new URLSearchParams({
      client_id: client.client_id,
      response_type: 'code',
      redirect_uri: application.redirectUri,
      scope: 'openid profile',
      state,
      nonce,
    }).toString()
    const parameters = oauth.validateAuthResponse(server, client, await approve(link.href), state)
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      authentication,
      parameters,
      application.redirectUri,
      oauth.nopkce,
      insecure,
    )
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: nonce,
      maxAge: 3600,
      requireIdToken: true,
    })
    await oauth.validateApplicationLevelSignature(server, response, insecure)
    const { sub = '' } = oauth.getValidatedIdTokenClaims(tokens) ?? {}
    const asked = await oauth.userInfoRequest(server, client, tokens.access_token, insecure)
    expect(await oauth.processUserInfoResponse(server, client, sub, asked)).toMatchObject({
      sub: account.id,
      preferred_username: account.username,
    })
  })
})

describe('Passport, with its strategy for OpenID Connect', () => {
  const here = `http://127.0.0.1:${appPort}`
  usePassportApp(appPort, () => ({ issuer, ...application }))

  /** A browser that has begun to sign in at the application. */
  async function aVisit() {
    const begun = await fetch(`${here}/login`, { redirect: 'manual' })
    const headers = { cookie: String(begun.headers.get('set-cookie')).replace(/;.*/, '') }
    const visit = (url: URL | string) => fetch(url, { headers, redirect: 'manual' })
    return {
      link: String(begun.headers.get('location')),
      comeBack: async (url: URL) => (await visit(url)).status,
      person: async () => (await visit(here)).json(),
    }
  }

  it('signs a person in, with the claims of the userinfo endpoint, and how and when (OPENID 243, 247, 254)', async () => {
    const { link, comeBack, person } = await aVisit()
    expect(await person()).toBeNull()
    expect(await comeBack(await approve(link))).toBe(302)
    expect(await person()).toEqual({
      id: account.id,
      username: account.username,
      displayName: 'Ann',
      emails: [{ value: 'ann@example.com' }],
      class: '1',
      methods: ['pwd'],
      timestamp: expect.stringMatching(/^20\d\d-/),
    })
  })

  it('signs nobody in by a response for another browser, or one that was used', async () => {
    const [first, other] = [await aVisit(), await aVisit()]
    const back = await approve(first.link)
    expect(await other.comeBack(back)).toBe(403)
    expect(await first.comeBack(back)).toBe(302)
    expect(await first.comeBack(back)).toBe(403)
    expect(await other.person()).toBeNull()
  })

  it('signs nobody in who denies', async () => {
    const { link, comeBack, person } = await aVisit()
    const denied = await open(t, `${link.replace(issuer, '')}&prompt=consent`, cookie)
    const redirect = await submitConsent(t, denied, cookie, 'deny')
    expect(await comeBack(new URL(String(redirect.headers.location)))).toBe(403)
    expect(await person()).toBeNull()
  })
})

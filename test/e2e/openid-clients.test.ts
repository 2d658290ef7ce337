import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { beforeAll, describe, expect, it } from 'vitest'
import { anAccount, signIn } from '../support/actors.ts'
import { followAndApprove } from '../support/browse.ts'
import { useListeningApp } from '../support/listening.ts'
import { type ApplicationActor, anApplication } from '../support/oauth-actors.ts'
import { freePort } from '../support/program.ts'

const port = await freePort()
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

import * as openid from 'openid-client'
import type { ClientLibrary, Tokens } from './client.ts'

/** openid-client: discovery, PKCE, credentials in the body. */
export const openidClient: ClientLibrary = async ({ issuer, clientId, clientSecret, redirectUri }) => {
  const configuration = await openid.discovery(new URL(issuer), clientId, clientSecret, undefined, {
    algorithm: 'oauth2',
    execute: [openid.allowInsecureRequests],
  })
  const verifier = openid.randomPKCECodeVerifier()
  const state = openid.randomState()
  let last: Tokens
  const keep = (tokens: openid.TokenEndpointResponse) =>
    (last = { accessToken: tokens.access_token, refreshToken: String(tokens.refresh_token) })
  return {
    async begin() {
      return openid.buildAuthorizationUrl(configuration, {
        redirect_uri: redirectUri,
        state,
        code_challenge: await openid.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      }).href
    },
    async finish(callback) {
      const checks = { pkceCodeVerifier: verifier, expectedState: state }
      return keep(await openid.authorizationCodeGrant(configuration, new URL(callback), checks))
    },
    refresh: async () => keep(await openid.refreshTokenGrant(configuration, last.refreshToken)),
    revoke: () => openid.tokenRevocation(configuration, last.refreshToken),
  }
}

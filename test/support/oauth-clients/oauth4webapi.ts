import * as oauth from 'oauth4webapi'
import type { ClientLibrary, Tokens } from './client.ts'

/** The tests use http on loopback. Elsewhere the library rightly rejects it. */
const insecure = { [oauth.allowInsecureRequests]: true }

/** oauth4webapi: discovery, PKCE, HTTP Basic with everything percent-encoded, `iss` checked. */
export const oauth4webapi: ClientLibrary = async ({ issuer, clientId, clientSecret, redirectUri }) => {
  const discovery = await oauth.discoveryRequest(new URL(issuer), { algorithm: 'oauth2', ...insecure })
  const server = await oauth.processDiscoveryResponse(new URL(issuer), discovery)
  const client = { client_id: clientId }
  const authentication = oauth.ClientSecretBasic(clientSecret)
  const state = oauth.generateRandomState()
  const verifier = oauth.generateRandomCodeVerifier()
  let last: Tokens
  const keep = (tokens: oauth.TokenEndpointResponse) =>
    (last = { accessToken: tokens.access_token, refreshToken: String(tokens.refresh_token) })
  return {
    async begin() {
      const link = new URL(String(server.authorization_endpoint))
      link.search = new URLSearchParams({
        response_type: 'code',
        client_id: clientId,
        redirect_uri: redirectUri,
        state,
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      }).toString()
      return link.href
    },
    async finish(callback) {
      const parameters = oauth.validateAuthResponse(server, client, new URL(callback), state)
      const response = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        authentication,
        parameters,
        redirectUri,
        verifier,
        insecure,
      )
      return keep(await oauth.processAuthorizationCodeResponse(server, client, response))
    },
    async refresh() {
      const { refreshToken } = last
      const response = await oauth.refreshTokenGrantRequest(
        server,
        client,
        authentication,
        refreshToken,
        insecure,
      )
      return keep(await oauth.processRefreshTokenResponse(server, client, response))
    },
    async revoke() {
      const response = await oauth.revocationRequest(
        server,
        client,
        authentication,
        last.refreshToken,
        insecure,
      )
      await oauth.processRevocationResponse(response)
    },
  }
}

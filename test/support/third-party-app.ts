import { createServer } from 'node:http'
import * as oauth from 'oauth4webapi'
import { afterAll, beforeAll } from 'vitest'

/** The tests use http on loopback. Elsewhere the library rightly rejects it. */
const insecure = { [oauth.allowInsecureRequests]: true }

/** A third-party application, written as its author would write it. It listens for the redirect of the browser. */
export interface ThirdPartyApp {
  redirectUri: string
  /** The link for its user, with a new state and PKCE challenge. */
  begin(clientId: string, parameters?: Record<string, string>): Promise<string>
  /** Exchanges the code from the browser's URL. Throws the error of the authorization server. */
  finish(clientId: string, clientSecret: string): Promise<oauth.TokenEndpointResponse>
  refresh(clientId: string, clientSecret: string, refreshToken: string): Promise<oauth.TokenEndpointResponse>
  revoke(clientId: string, clientSecret: string, token: string): Promise<void>
}

/** Starts the application on the loopback port, for one test file. It discovers everything from the issuer. */
export function useThirdPartyApp(port: number, issuer: string): ThirdPartyApp {
  const redirectUri = `http://127.0.0.1:${port}/callback`
  let came = new URL(redirectUri)
  let state = ''
  let verifier = ''
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/callback')) came = new URL(request.url, redirectUri)
    response.setHeader('content-type', 'text/html').end('<h1>Back at the application</h1>')
  })
  beforeAll(() => new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve)))
  afterAll(() => new Promise<void>((resolve) => server.close(() => resolve())))

  async function discover(): Promise<oauth.AuthorizationServer> {
    const url = new URL(issuer)
    const response = await oauth.discoveryRequest(url, { algorithm: 'oauth2', ...insecure })
    return await oauth.processDiscoveryResponse(url, response)
  }

  return {
    redirectUri,
    async begin(clientId, parameters = {}) {
      const { authorization_endpoint } = await discover()
      state = oauth.generateRandomState()
      verifier = oauth.generateRandomCodeVerifier()
      const link = new URL(String(authorization_endpoint))
      link.search = new URLSearchParams({
        response_type: 'code',
        client_id: clientId,
        redirect_uri: redirectUri,
        state,
        code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...parameters,
      }).toString()
      return link.href
    },
    async finish(clientId, clientSecret) {
      const [server, client] = [await discover(), { client_id: clientId }]
      const parameters = oauth.validateAuthResponse(server, client, came, state)
      const authentication = oauth.ClientSecretBasic(clientSecret)
      const response = await oauth.authorizationCodeGrantRequest(
        server,
        client,
        authentication,
        parameters,
        redirectUri,
        verifier,
        insecure,
      )
      return await oauth.processAuthorizationCodeResponse(server, client, response)
    },
    async refresh(clientId, clientSecret, refreshToken) {
      const [server, client] = [await discover(), { client_id: clientId }]
      const authentication = oauth.ClientSecretBasic(clientSecret)
      const response = await oauth.refreshTokenGrantRequest(
        server,
        client,
        authentication,
        refreshToken,
        insecure,
      )
      return await oauth.processRefreshTokenResponse(server, client, response)
    },
    async revoke(clientId, clientSecret, token) {
      const [server, client] = [await discover(), { client_id: clientId }]
      const authentication = oauth.ClientSecretBasic(clientSecret)
      const response = await oauth.revocationRequest(server, client, authentication, token, insecure)
      await oauth.processRevocationResponse(response)
    },
  }
}

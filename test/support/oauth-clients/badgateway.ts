import { randomUUID } from 'node:crypto'
import { generateCodeVerifier, OAuth2Client, type OAuth2Token } from '@badgateway/oauth2-client'
import type { ClientLibrary, Tokens } from './client.ts'

/** @badgateway/oauth2-client: discovery on first use, PKCE, HTTP Basic. */
export const badgateway: ClientLibrary = async ({ issuer, clientId, clientSecret, redirectUri }) => {
  const client = new OAuth2Client({
    server: issuer,
    clientId,
    clientSecret,
    discoveryEndpoint: '/.well-known/oauth-authorization-server',
  })
  const request = { redirectUri, state: randomUUID(), codeVerifier: await generateCodeVerifier() }
  let last: OAuth2Token
  const keep = (token: OAuth2Token): Tokens => {
    last = token
    return { accessToken: token.accessToken, refreshToken: String(token.refreshToken) }
  }
  return {
    begin: () => client.authorizationCode.getAuthorizeUri(request),
    finish: async (callback) =>
      keep(await client.authorizationCode.getTokenFromCodeRedirect(callback, request)),
    refresh: async () => keep(await client.refreshToken(last)),
    revoke: () => client.revoke(last, 'refresh_token'),
  }
}

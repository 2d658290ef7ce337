import { randomUUID } from 'node:crypto'
import { type AccessToken, AuthorizationCode } from 'simple-oauth2'
import type { ClientLibrary, Tokens } from './client.ts'

/** simple-oauth2: no discovery, no PKCE, HTTP Basic; it revokes both tokens, one after the other. */
export const simpleOauth2: ClientLibrary = async ({ issuer, clientId, clientSecret, redirectUri }) => {
  const client = new AuthorizationCode({
    client: { id: clientId, secret: clientSecret },
    auth: {
      tokenHost: issuer,
      tokenPath: '/oauth2/token',
      revokePath: '/oauth2/revoke',
      authorizePath: '/oauth2/auth',
    },
  })
  let last: AccessToken
  const keep = (token: AccessToken): Tokens => {
    last = token
    return { accessToken: token.token.access_token, refreshToken: token.token.refresh_token }
  }
  return {
    begin: async () => client.authorizeURL({ redirect_uri: redirectUri, state: randomUUID() }),
    finish: async (callback) => {
      const code = String(new URL(callback).searchParams.get('code'))
      return keep(await client.getToken({ code, redirect_uri: redirectUri }))
    },
    refresh: async () => keep(await last.refresh()),
    revoke: () => last.revokeAll(),
  }
}

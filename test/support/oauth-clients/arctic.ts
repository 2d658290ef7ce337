import {
  CodeChallengeMethod,
  generateCodeVerifier,
  generateState,
  OAuth2Client,
  type OAuth2Tokens,
} from 'arctic'
import type { ClientLibrary, Tokens } from './client.ts'

/** arctic: no discovery, PKCE, HTTP Basic without encoding; the refresh repeats the scopes. */
export const arctic: ClientLibrary = async ({ issuer, clientId, clientSecret, redirectUri }) => {
  const client = new OAuth2Client(clientId, clientSecret, redirectUri)
  const verifier = generateCodeVerifier()
  const scopes = ['account-profile:r', 'registry-package:rw']
  let last: OAuth2Tokens
  const keep = (tokens: OAuth2Tokens): Tokens => {
    last = tokens
    return { accessToken: tokens.accessToken(), refreshToken: tokens.refreshToken() }
  }
  return {
    begin: async () =>
      client.createAuthorizationURLWithPKCE(
        `${issuer}/oauth2/auth`,
        generateState(),
        CodeChallengeMethod.S256,
        verifier,
        scopes,
      ).href,
    finish: async (callback) => {
      const code = String(new URL(callback).searchParams.get('code'))
      return keep(await client.validateAuthorizationCode(`${issuer}/oauth2/token`, code, verifier))
    },
    refresh: async () =>
      keep(await client.refreshAccessToken(`${issuer}/oauth2/token`, last.refreshToken(), scopes)),
    revoke: () => client.revokeToken(`${issuer}/oauth2/revoke`, last.refreshToken()),
  }
}

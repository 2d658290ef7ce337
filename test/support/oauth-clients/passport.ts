import { randomUUID } from 'node:crypto'
import { Strategy } from 'passport-oauth2'
import type { ClientLibrary, Tokens } from './client.ts'

/** passport-oauth2: no discovery, no PKCE, credentials in the body, and no revocation. */
export const passport: ClientLibrary = async ({ issuer, clientId, clientSecret, redirectUri }) => {
  const strategy = new Strategy(
    {
      authorizationURL: `${issuer}/oauth2/auth`,
      tokenURL: `${issuer}/oauth2/token`,
      clientID: clientId,
      clientSecret,
      callbackURL: redirectUri,
    },
    (accessToken, refreshToken, _profile, done) => done(null, { accessToken, refreshToken }),
  )
  let last: Tokens
  /** Passport makes one strategy for each request. It reports the result through callbacks. */
  const perRequest = (query: Record<string, string>, options: { state?: string }) =>
    new Promise<string | object>((resolve, reject) => {
      const own: Strategy = Object.create(strategy)
      own.redirect = resolve
      own.success = resolve
      own.fail = (challenge) => reject(new Error(JSON.stringify(challenge)))
      own.error = reject
      own.authenticate({ query }, options)
    })
  return {
    begin: async () => (await perRequest({}, { state: randomUUID() })) as string,
    finish: async (callback) => {
      const query = Object.fromEntries(new URL(callback).searchParams)
      last = (await perRequest(query, {})) as Tokens
      return last
    },
    refresh: () =>
      new Promise((resolve, reject) => {
        const parameters = { grant_type: 'refresh_token' }
        strategy._oauth2.getOAuthAccessToken(
          last.refreshToken,
          parameters,
          (error, accessToken, refreshToken) => {
            last = { accessToken, refreshToken }
            if (error) reject(new Error(JSON.stringify(error)))
            else resolve(last)
          },
        )
      }),
    revoke: null,
  }
}

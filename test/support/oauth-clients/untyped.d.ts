/** The parts of untyped client libraries that the tests use. */
declare module 'simple-oauth2' {
  export interface AccessToken {
    token: { access_token: string; refresh_token: string }
    refresh(): Promise<AccessToken>
    revokeAll(): Promise<void>
  }
  export class AuthorizationCode {
    constructor(options: {
      client: { id: string; secret: string }
      auth: { tokenHost: string; tokenPath: string; revokePath: string; authorizePath: string }
    })
    authorizeURL(parameters: Record<string, string>): string
    getToken(parameters: { code: string; redirect_uri: string }): Promise<AccessToken>
  }
}

declare module 'passport-oauth2' {
  type Done = (error: unknown, user: object) => void
  export class Strategy {
    constructor(
      options: Record<'authorizationURL' | 'tokenURL' | 'clientID' | 'clientSecret' | 'callbackURL', string>,
      verify: (accessToken: string, refreshToken: string, profile: unknown, done: Done) => void,
    )
    authenticate(request: { query: Record<string, string> }, options: { state?: string }): void
    redirect: (url: string) => void
    success: (user: object) => void
    fail: (challenge: unknown) => void
    error: (error: Error) => void
    /** The members that passport-oauth2-refresh and custom strategies call. */
    _oauth2: {
      getOAuthAccessToken(
        code: string,
        parameters: Record<string, string>,
        done: (error: unknown, accessToken: string, refreshToken: string) => void,
      ): void
    }
  }
}

declare module 'passport-openidconnect' {
  /** A person, with the claims of the userinfo endpoint and what the ID token tells of the sign-in. */
  export interface Profile {
    id: string
    displayName?: string
    username?: string
    emails?: { value: string }[]
    timestamp?: Date
    class?: string
    methods?: string[]
  }
  type Verified = (error: unknown, user: Profile) => void
  export class Strategy {
    constructor(
      options: Record<
        | 'issuer'
        | 'authorizationURL'
        | 'tokenURL'
        | 'userInfoURL'
        | 'clientID'
        | 'clientSecret'
        | 'callbackURL',
        string
      > & { scope: string[]; nonce: boolean; maxAge: number; skipUserProfile: boolean },
      verify: (issuer: string, profile: Profile, context: Profile, idToken: string, done: Verified) => void,
    )
  }
}

declare module 'passport' {
  import type { IncomingMessage, ServerResponse } from 'node:http'
  import type { Profile, Strategy } from 'passport-openidconnect'

  export class Passport {
    authenticate(
      strategy: Strategy,
      options: { session: boolean },
      done: (error: unknown, user: Profile | false | undefined) => void,
    ): (request: IncomingMessage, response: ServerResponse) => void
  }
}

/** Where an application finds the authorization server, and who it is there. */
export interface Registration {
  issuer: string
  clientId: string
  clientSecret: string
  redirectUri: string
}

/** Tokens as a client library hands them to its application. */
export interface Tokens {
  accessToken: string
  refreshToken: string
}

/** One authorization, from the link to the revocation, done by a client library as its documentation shows. */
export interface OAuthClient {
  /** The link for the application's user. */
  begin(): Promise<string>
  /** Takes the address that the browser came back to. */
  finish(callback: string): Promise<Tokens>
  /** Refreshes the tokens that it got last. */
  refresh(): Promise<Tokens>
  /** Revokes the refresh token that it got last; null when the library cannot. */
  revoke: (() => Promise<void>) | null
}

/** Starts an authorization. */
export type ClientLibrary = (registration: Registration) => Promise<OAuthClient>

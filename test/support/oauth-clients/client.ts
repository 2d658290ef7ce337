/** The registration of an application: the authorization server and its credentials there. */
export interface Registration {
  issuer: string
  clientId: string
  clientSecret: string
  redirectUri: string
}

/** The tokens that a client library returns to its application. */
export interface Tokens {
  accessToken: string
  refreshToken: string
}

/** One authorization, from the link to the revocation, with a client library used as in its documentation. */
export interface OAuthClient {
  /** The link for the application's user. */
  begin(): Promise<string>
  /** Handles the URL that the browser came back to. */
  finish(callback: string): Promise<Tokens>
  /** Refreshes the latest tokens. */
  refresh(): Promise<Tokens>
  /** Revokes the latest refresh token. Null when the library cannot revoke. */
  revoke: (() => Promise<void>) | null
}

/** Starts an authorization. */
export type ClientLibrary = (registration: Registration) => Promise<OAuthClient>

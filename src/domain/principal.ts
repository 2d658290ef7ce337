import type { PublisherRun } from './publisher.ts'
import type { SecretHash, TokenKind } from './secrets.ts'

/**
 * Who acts: a person, an application, a token, or the operator, with the credential and the client IP. It is made once for
 * a request, a command or a job. The events of what it does name it.
 */
export interface Principal {
  /** The account that acts. Null for the operator, an application, a token without an account, and when nobody has signed in. */
  accountId: string | null
  /** `application`: an application acts at an OAuth endpoint. Null: svc itself, in the background. */
  via: 'browser' | 'api' | 'command' | 'application' | null
  /** The token of the request, or the Git source that is read. Null in a browser and on the command line. */
  token: UsedToken | ActingSource | null
  /** The hash of the id of the browser's session. */
  session: SecretHash | null
  /** The IP of the client, without port and zone. */
  ip: string | null
  userAgent: string | null
  requestId: string | null
}

/** A token of the view `live_token` that a request presented. */
export interface UsedToken {
  kind: TokenKind
  /** For a token of a trusted publisher, the id of the publisher. */
  tokenId: string
  /** Null unless the token is an access token of an application. */
  authorizationId: string | null
  /** The CI job that got the token of a trusted publisher, or the Git source. Null for everybody else. */
  run?: PublisherRun | null
  /** The ids of all trusted publishers that matched the CI job. Only a token of a trusted publisher has some. */
  publishers?: readonly string[]
}

/** A Git source, in place of a token. */
export interface ActingSource extends Omit<UsedToken, 'kind'> {
  kind: 'source'
  /** The id of the source. */
  tokenId: string
}

const nobody = { accountId: null, token: null, session: null, ip: null, userAgent: null, requestId: null }

/** The operator on the command line, where no account signs in. */
export const operator: Principal = { ...nobody, via: 'command' }

/** svc itself, for what it finds in the background. */
export const background: Principal = { ...nobody, via: null }

/** Returns who acts, in the members that the SQL function `insert_events` reads. It is stored: the session is left out. */
export function describePrincipal(by: Principal): Omit<Principal, 'session'> {
  const { accountId, via, token, ip, userAgent, requestId } = by
  return { accountId, via, token, ip, userAgent, requestId }
}

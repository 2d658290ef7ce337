import type { FastifyReply } from 'fastify'
import { redirectTo } from './redirect-uri.ts'

/**
 * The link to the authorization endpoint cannot be followed, and its redirect URI is not proven: a page says so
 * and nothing is sent anywhere (SPEC 4.1, OAUTH 8–26). The message is for the application's author.
 */
export class LinkError extends Error {
  /** Path and query under which the same can be asked anew; null when that would not help. */
  readonly again: string | null

  constructor(reason: string, again: string | null = null) {
    super(reason)
    this.again = again
  }
}

/** Where the response to an authorization request goes, once its redirect URI is proven. */
export interface ResponseTarget {
  redirectUri: string
  /** Percent-encoded, as it came; null when the request had none. */
  state: string | null
}

/** RFC 6749 §4.1.2.1, and OpenID Connect Core §3.1.2.6 for `prompt=none`. */
export type AuthorizationErrorCode =
  | 'access_denied'
  | 'consent_required'
  | 'invalid_request'
  | 'invalid_scope'
  | 'login_required'
  | 'unsupported_response_type'

/** A refusal that the application is told, by redirect. The description keeps to RFC 6749 §4.1.2.1's characters. */
export class AuthorizationError extends Error {
  readonly target: ResponseTarget
  readonly code: AuthorizationErrorCode

  constructor(target: ResponseTarget, code: AuthorizationErrorCode, description: string) {
    super(description)
    this.target = target
    this.code = code
  }
}

/**
 * Sends the browser back to the application: 302 (SPEC 4.1; never 307, which would post the consent form there),
 * with `state` as it came and `iss` (RFC 9207 §2).
 */
export function sendBack(
  reply: FastifyReply,
  target: ResponseTarget,
  issuer: string,
  response: { code: string } | { error: AuthorizationErrorCode; error_description: string },
): FastifyReply {
  const encoded = Object.entries(response).map(([name, value]) => [name, encodeURIComponent(value)])
  const parameters = { ...Object.fromEntries(encoded), state: target.state, iss: encodeURIComponent(issuer) }
  return reply.redirect(redirectTo(target.redirectUri, parameters), 302)
}

import type { FastifyReply, FastifyRequest } from 'fastify'
import { refusalOf } from '../refusal-of.ts'

/**
 * The status of each error of RFC 6749 §5.2, RFC 6750 §3.1, RFC 8628 §3.5 and RFC 8693 §2.2.2, and of the errors of RFC 6749
 * §4.1.2.1 that these endpoints use.
 */
const statuses = {
  invalid_request: 400,
  invalid_client: 401,
  invalid_grant: 400,
  unsupported_grant_type: 400,
  unauthorized_client: 400,
  access_denied: 400,
  authorization_pending: 400,
  expired_token: 400,
  slow_down: 400,
  invalid_scope: 400,
  invalid_target: 400,
  invalid_token: 401,
  insufficient_scope: 403,
  server_error: 500,
  temporarily_unavailable: 429,
} as const

export type OAuthErrorCode = keyof typeof statuses

/** An error that the client may read: RFC 6749 §5.2. That section limits the characters of the description. */
export class OAuthError extends Error {
  readonly code: OAuthErrorCode
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: OAuthErrorCode,
    description: string,
    { status = statuses[code] as number, headers = {} as Record<string, string> } = {},
  ) {
    super(description)
    this.code = code
    this.status = status
    this.headers =
      code === 'invalid_client' ? { 'www-authenticate': 'Basic realm="oauth"', ...headers } : headers
  }
}

/** Returns the error for every failure of client authentication. It does not show which part was wrong. */
export function invalidClient(): OAuthError {
  return new OAuthError('invalid_client', 'Client authentication failed.')
}

/** Forbids storing the response: RFC 6749 §5.1. */
export function forbidStoring(reply: FastifyReply): void {
  reply.header('cache-control', 'no-store').header('pragma', 'no-cache')
}

/** Sends JSON with the exact content type of SPEC 4.2. */
export function sendJson(reply: FastifyReply, body: object): FastifyReply {
  return reply.header('content-type', 'application/json;charset=UTF-8').send(JSON.stringify(body))
}

/** Sends any thrown error in the format of OAuth. Anything but an OAuthError is a bug: logged once, sent without detail. */
export function sendOAuthError(thrown: Error, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const error = thrown instanceof OAuthError ? thrown : translate(thrown)
  if (error.status >= 500) request.log.error({ err: thrown }, 'a request to the OAuth endpoints failed')
  forbidStoring(reply)
  reply.code(error.status).headers(error.headers)
  return sendJson(reply, { error: error.code, error_description: error.message })
}

/** Turns any other error into an OAuthError. */
function translate(thrown: Error): OAuthError {
  const { status, retryAfterSeconds } = refusalOf(thrown)
  if (status === 413) return new OAuthError('invalid_request', 'The request body is too large.', { status })
  if (status === 503) {
    return new OAuthError(
      'temporarily_unavailable',
      'The server is temporarily unavailable. Try again later.',
      { status, headers: { 'retry-after': `${retryAfterSeconds}` } },
    )
  }
  if (status < 500) return new OAuthError('invalid_request', 'The request cannot be read.')
  return new OAuthError('server_error', 'The server failed to process this request.')
}

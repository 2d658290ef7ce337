import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod'
import { brokenConstraint, isReferenceGone } from '../../database/errors.ts'
import { describeRule } from '../../database/rules.ts'
import { errcode } from '../../domain/refusal.ts'
import { EndedMeanwhileError } from '../../groups/live-principal.ts'
import { refusalOf } from '../refusal-of.ts'

/** An error whose message the caller of the API may read. */
export class ApiError extends Error {
  readonly status: number
  readonly errcode: number
  readonly headers: Readonly<Record<string, string>>

  constructor(status: number, errcode: number, errmsg: string, headers: Record<string, string> = {}) {
    super(errmsg)
    this.status = status
    this.errcode = errcode
    this.headers = headers
  }
}

/** Returns the error for missing credentials. The challenge has no error attribute (RFC 6750 §3.1). */
export function noCredentials(): ApiError {
  return new ApiError(401, errcode.unauthenticated, 'not authorized', challenge({}))
}

/** The token is unknown, expired or revoked. */
export function invalidToken(): ApiError {
  const headers = challenge({ error: 'invalid_token', error_description: 'The access token is not valid' })
  return new ApiError(401, errcode.unauthenticated, 'not authorized', headers)
}

/** The credentials cannot be read, or the request has two of them. */
export function unreadableCredentials(description: string): ApiError {
  const headers = challenge({ error: 'invalid_request', error_description: description })
  return new ApiError(400, errcode.invalidArgument, description, headers)
}

/** The token lacks the scope. */
export function insufficientScope(scope: string): ApiError {
  const headers = challenge({ error: 'insufficient_scope', scope })
  return new ApiError(403, errcode.permissionDenied, `the scope ${scope} is required`, headers)
}

/** Returns the error for input that breaks a rule. The message names the member and the rule. */
export function invalidArgument(errmsg: string): ApiError {
  return new ApiError(400, errcode.invalidArgument, errmsg)
}

/** Returns the error for everything that does not exist, or that the token may not see. */
export function notFound(errmsg: string): ApiError {
  return new ApiError(404, errcode.notFound, errmsg)
}

/** Returns the error for a request that conflicts with the current state. */
export function conflict(errmsg: string): ApiError {
  return new ApiError(409, errcode.failedPrecondition, errmsg)
}

/** Runs a change. Throws an ApiError when it breaks a rule of the schema: 409 for a taken name, else 400. */
export async function keepingRules<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change()
  } catch (error) {
    const constraint = brokenConstraint(error)
    if (constraint === null || isReferenceGone(error)) throw error
    const isTaken = /_is_(?:taken|reserved)$/.test(constraint)
    throw isTaken
      ? new ApiError(409, errcode.alreadyExists, describeRule(constraint))
      : invalidArgument(describeRule(constraint))
  }
}

/**
 * Sends any thrown error in the format of the API. Anything but an ApiError is a bug: it is logged, and sent without
 * detail.
 */
export function sendApiError(thrown: Error, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const error = thrown instanceof ApiError ? thrown : translate(thrown)
  if (error.status >= 500) request.log.error({ err: thrown }, 'an API request failed')
  if (isReferenceGone(thrown)) request.log.warn({ err: thrown }, 'a change refers to a row that was deleted')
  reply.code(error.status).headers({ 'cache-control': 'no-store', ...error.headers })
  return reply.send({ errcode: error.errcode, errmsg: error.message })
}

/** Turns any other error into an ApiError. */
function translate(thrown: Error & Partial<FastifyError>): ApiError {
  if (thrown instanceof EndedMeanwhileError) return invalidToken()
  if (hasZodFastifySchemaValidationErrors(thrown)) return invalidArgument(describeIssue(thrown))
  const { status, errcode, errmsg, retryAfterSeconds: seconds } = refusalOf(thrown)
  const message = status === 415 ? 'the request body must be application/json' : errmsg
  return new ApiError(status, errcode, message, seconds === undefined ? {} : { 'retry-after': `${seconds}` })
}

function challenge(attributes: Record<string, string>): Record<string, string> {
  const pairs = Object.entries({ realm: 'svc', ...attributes }).map(([name, value]) => `${name}="${value}"`)
  return { 'www-authenticate': `Bearer ${pairs.join(', ')}` }
}

/** Names the member and the rule that the first invalid input breaks. */
function describeIssue({
  validation,
  validationContext,
}: Pick<FastifyError, 'validation' | 'validationContext'>) {
  const [issue] = validation ?? []
  const unknown = issue?.params['keys'] as string[] | undefined
  if (unknown) return `${unknown[0]}: is not a known member of the ${validationContext}`
  const member = issue?.instancePath.slice(1).replaceAll('/', '.')
  return `${member || `the ${validationContext}`}: ${issue?.message}`
}

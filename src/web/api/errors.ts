import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { hasZodFastifySchemaValidationErrors } from 'fastify-type-provider-zod'
import { brokenConstraint, isReferenceGone } from '../../database/errors.ts'
import { describeRule } from '../../database/rules.ts'
import { type Errcode, errcode, Refusal } from '../../domain/refusal.ts'
import { EndedMeanwhileError } from '../../groups/live-principal.ts'
import { bearerChallenge } from '../bearer-challenge.ts'
import { logFailure } from '../log-failure.ts'
import { refusalOf } from '../refusal-of.ts'

/** A refusal of the credentials. The attributes of its challenge say why (RFC 6750 §3). */
class CredentialsRefusal extends Refusal {
  readonly attributes: Readonly<Record<string, string>>
  /** The scopes that the request needs besides those of its route. */
  readonly scopes: readonly string[]

  constructor(
    code: Errcode,
    errmsg: string,
    attributes: Readonly<Record<string, string>>,
    scopes: readonly string[] = [],
  ) {
    super(code, errmsg)
    this.attributes = attributes
    this.scopes = scopes
  }
}

/** Returns the refusal for missing credentials. The challenge has no error attribute (RFC 6750 §3.1). */
export function noCredentials(): Refusal {
  return new CredentialsRefusal(errcode.unauthenticated, 'not authorized', {})
}

/** The token is unknown, expired or revoked. */
export function invalidToken(): Refusal {
  const attributes = { error: 'invalid_token', error_description: 'The access token is not valid' }
  return new CredentialsRefusal(errcode.unauthenticated, 'not authorized', attributes)
}

/** The credentials cannot be read, or the request has two of them. */
export function unreadableCredentials(description: string): Refusal {
  const attributes = { error: 'invalid_request', error_description: description }
  return new CredentialsRefusal(errcode.invalidArgument, description, attributes)
}

/** The token lacks a scope. `needed` are the scopes that the request needs besides those of its route. */
export function insufficientScope(missing: string, needed: readonly string[]): Refusal {
  const attributes = { error: 'insufficient_scope' }
  return new CredentialsRefusal(
    errcode.permissionDenied,
    `the scope ${missing} is required`,
    attributes,
    needed,
  )
}

/** Returns the refusal of input that breaks a rule. The message names the member and the rule. */
export function invalidArgument(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}

/** Returns the refusal for everything that does not exist, or that the token may not see. */
export function notFound(errmsg: string): Refusal {
  return new Refusal(errcode.notFound, errmsg)
}

/** Returns the refusal of a request that conflicts with the current state. */
export function conflict(errmsg: string): Refusal {
  return new Refusal(errcode.failedPrecondition, errmsg, { status: 409 })
}

/** Runs a change. Throws a Refusal when it breaks a rule of the schema: 409 for a taken name, else 400. */
export async function keepingRules<T>(change: () => Promise<T>): Promise<T> {
  try {
    return await change()
  } catch (error) {
    const constraint = brokenConstraint(error)
    if (constraint === null || isReferenceGone(error)) throw error
    const isTaken = /_is_(?:taken|reserved|of_a_deleted_one)$/.test(constraint)
    throw isTaken
      ? new Refusal(errcode.alreadyExists, describeRule(constraint))
      : invalidArgument(describeRule(constraint))
  }
}

/** Sends any thrown error in the format of the API. A bug is logged, and sent without detail. */
export function sendApiError(thrown: Error, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const refusal = toRefusal(thrown)
  const { status, errcode: code, errmsg, retryAfterSeconds } = refusal
  logFailure(request, refusal, thrown, 'an API request failed')
  if (isReferenceGone(thrown)) request.log.warn({ err: thrown }, 'a change refers to a row that was deleted')
  const challenge = challengeOf(request, refusal)
  if (challenge !== null) reply.header('www-authenticate', challenge)
  if (retryAfterSeconds !== undefined) reply.header('retry-after', retryAfterSeconds)
  const message = status === 415 ? 'the request body must be application/json' : errmsg
  return reply.code(status).header('cache-control', 'no-store').send({ errcode: code, errmsg: message })
}

/** Returns the challenge of a refused request (RFC 6750 §3). Null when it was not refused for its credentials. */
export function challengeOf(request: FastifyRequest, refusal: Refusal): string | null {
  if (refusal instanceof CredentialsRefusal)
    return bearerChallenge(request, refusal.attributes, refusal.scopes)
  return refusal.status === 401 || refusal.status === 403 ? bearerChallenge(request) : null
}

/** Returns the refusal of anything that was thrown while a request with a bearer token was handled. */
export function toRefusal(thrown: Error & Partial<FastifyError>): Refusal {
  if (thrown instanceof EndedMeanwhileError) return invalidToken()
  if (hasZodFastifySchemaValidationErrors(thrown)) return invalidArgument(describeIssue(thrown))
  return refusalOf(thrown)
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

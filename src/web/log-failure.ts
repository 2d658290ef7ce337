import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Refusal } from '../domain/refusal.ts'

// A property of the request, because a WeakMap of all requests makes each garbage collection slower.
const refused = Symbol('refused')

/**
 * Logs the error of a request if the server failed. A refusal with a status of 5xx that is no failure, such as 507 for a
 * full group, is neither in the log of errors nor counted as one.
 */
export function logFailure(
  request: FastifyRequest,
  { isFailure }: Pick<Refusal, 'isFailure'>,
  thrown: Error,
  message: string,
): void {
  if (isFailure) request.log.error({ err: thrown, req: request }, message)
  else Reflect.set(request, refused, true)
}

/** Returns whether the response is a failure of the server. */
export function isFailed(request: FastifyRequest, { statusCode }: Pick<FastifyReply, 'statusCode'>): boolean {
  return statusCode >= 500 && Reflect.get(request, refused) !== true
}

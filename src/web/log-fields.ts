import type { FastifyRequest } from 'fastify'

// A property of the request, because a WeakMap of all requests makes each garbage collection slower.
const logFields = Symbol('log fields')

/** Adds fields to the line that the log gets when the request is completed. They must contain no secrets. */
export function addLogFields(request: FastifyRequest, fields: object): void {
  Reflect.set(request, logFields, { ...logFieldsOf(request), ...fields })
}

/** Returns the fields that were added to the log line of a request. */
export function logFieldsOf(request: FastifyRequest): object {
  return (Reflect.get(request, logFields) as object | undefined) ?? {}
}

import type { FastifyRequest } from 'fastify'
import { covers } from '../domain/scopes.ts'
import { hashSecret, kindOfSecret, type SecretHash } from '../domain/secrets.ts'
import { insufficientScope, invalidToken, noCredentials, unreadableCredentials } from './errors.ts'

/**
 * The bearer token of a request, hashed (RFC 6750 §2.1): an OAuth access token or a personal access token. It is
 * read from the Authorization header alone. Throws when there is none, or none that any account could hold.
 */
export function readBearer(request: FastifyRequest): SecretHash {
  const { authorization } = request.headers
  if (authorization === undefined || !/^bearer(?: |$)/i.test(authorization)) throw noCredentials()
  const token = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization)?.[1]
  if (token === undefined) throw unreadableCredentials('The Authorization header is malformed')
  if (hasTokenBeside(request)) throw unreadableCredentials('The request carries more than one access token')
  const kind = kindOfSecret(token)
  if (kind !== 'access' && kind !== 'personal') throw invalidToken()
  return hashSecret(token)
}

/** Throws `insufficient_scope`, naming the scope, unless the granted ones cover it. */
export function requireScope(granted: readonly string[], scope: string): void {
  if (!covers(granted, scope)) throw insufficientScope(scope)
}

/** RFC 6750 §2: one request, one method. A token in the query is no credential, but beside the header it is a mistake. */
function hasTokenBeside({ query, body }: FastifyRequest): boolean {
  return [query, body].some((part) => typeof part === 'object' && part !== null && 'access_token' in part)
}

import type { FastifyRequest } from 'fastify'
import type { RegistryRequest } from '../access.ts'
import { readCredentials } from './credentials.ts'

/** Reads which repository a request is for, and its token. Throws errcode 16 for credentials that cannot be valid. */
export function readRegistryRequest(request: FastifyRequest): RegistryRequest {
  const { group = '', name = '' } = request.params as Record<string, string | undefined>
  return { group, name, tokenHash: readCredentials(request) }
}

/** Returns a decoded parameter of the route's path; '' when the route has none of that name. */
export function param(request: FastifyRequest, name: string): string {
  return (request.params as Record<string, string | undefined>)[name] ?? ''
}

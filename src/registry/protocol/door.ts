import type { FastifyRequest } from 'fastify'
import type { Door } from '../access.ts'
import { readCredentials } from './credentials.ts'

/** Reads where a request goes and with which token. Throws errcode 16 for credentials that cannot be good. */
export function readDoor(request: FastifyRequest): Door {
  const { group = '', name = '' } = request.params as Record<string, string | undefined>
  return { group, name, tokenHash: readCredentials(request) }
}

/** A parameter of the route's path, decoded. */
export function param(request: FastifyRequest, name: string): string {
  return (request.params as Record<string, string | undefined>)[name] ?? ''
}

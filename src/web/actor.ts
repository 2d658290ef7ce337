import type { FastifyRequest } from 'fastify'
import type { Actor } from '../database/database.ts'
import { bareIp } from '../domain/client-ip.ts'

const maxUserAgentCharacters = 400

/** Returns who sends this request, for identity events. */
export function actorOf(request: FastifyRequest, accountId: string | null, act?: Actor['act']): Actor {
  return {
    accountId,
    via: 'browser',
    ip: bareIp(request.ip),
    userAgent: userAgentOf(request),
    requestId: request.id,
    ...(act !== undefined && { act }),
  }
}

/** The application that sends this request to an OAuth endpoint, for identity events. */
export function applicationActor(request: FastifyRequest): Actor {
  return { ...actorOf(request, null), via: 'application' }
}

/**
 * Returns a function that describes the sender of this request with a token, by the account of the token. It reads the IP
 * now: after a disconnect the socket no longer has it.
 */
export function senderOf(request: FastifyRequest): (accountId: string | null) => Actor {
  const { ip } = request
  return (accountId) => ({
    accountId,
    via: 'api',
    ip: bareIp(ip),
    userAgent: userAgentOf(request),
    requestId: request.id,
  })
}

/** Returns the `User-Agent` header without control characters, cut to 400 characters. Null without one. */
export function userAgentOf({ headers }: FastifyRequest): string | null {
  const sent = headers['user-agent']?.replace(/\p{Cc}/gu, ' ').trim()
  return sent ? Array.from(sent).slice(0, maxUserAgentCharacters).join('') : null
}

import { isIP } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Actor } from '../database/database.ts'

const maxUserAgentCharacters = 400

/** Who acts with this request, for identity events. */
export function actorOf(request: FastifyRequest, accountId: string | null, act?: Actor['act']): Actor {
  return {
    accountId,
    via: 'browser',
    ip: ipOf(request),
    userAgent: userAgentOf(request),
    requestId: request.id,
    ...(act !== undefined && { act }),
  }
}

/** The application that sends this request to an OAuth endpoint, for identity events. */
export function applicationActor(request: FastifyRequest): Actor {
  return { ...actorOf(request, null), via: 'application' }
}

/** The `User-Agent` header without control characters, at most 400 characters of it; null without one. */
export function userAgentOf({ headers }: FastifyRequest): string | null {
  const sent = headers['user-agent']?.replace(/\p{Cc}/gu, ' ').trim()
  return sent ? Array.from(sent).slice(0, maxUserAgentCharacters).join('') : null
}

/** The client IP as PostgreSQL reads it. Null for anything else: a trusted proxy may write any text. */
function ipOf({ ip }: FastifyRequest): string | null {
  const bare = ip.replace(/%.*$/, '')
  return isIP(bare) === 0 ? null : bare
}

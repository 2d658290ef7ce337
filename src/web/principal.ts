import type { FastifyRequest } from 'fastify'
import type { Session } from '../accounts/sessions.ts'
import { bareIp } from '../domain/client-ip.ts'
import type { Principal, UsedToken } from '../domain/principal.ts'

const maxUserAgentCharacters = 400

/** Returns the person who sends this request from a browser. */
export function principalOf(
  request: FastifyRequest,
  { account, idHash }: Pick<Session, 'account' | 'idHash'>,
): Principal {
  return { ...browserOf(request, account.id), session: idHash }
}

/**
 * Returns who sends this request from a browser that is not signed in: the person who signs in to an account now, or with
 * null nobody who is known.
 */
export function browserOf(request: FastifyRequest, accountId: string | null): Principal {
  return { ...senderOf(request), via: 'browser', accountId, token: null, session: null }
}

/** Returns the application that sends this request to an OAuth endpoint. The events that name it contain its id. */
export function applicationOf(request: FastifyRequest): Principal {
  return { ...senderOf(request), via: 'application', accountId: null, token: null, session: null }
}

/**
 * Returns a function that tells who sends this request with a token, when the account of the token is known. It reads the
 * IP now: after a disconnect the socket no longer has it.
 */
export function tokenPrincipalOf(
  request: FastifyRequest,
): (token: UsedToken | null, accountId: string | null) => Principal {
  const sender = senderOf(request)
  return (token, accountId) => ({ ...sender, via: 'api', accountId, token, session: null })
}

function senderOf(request: FastifyRequest): Pick<Principal, 'ip' | 'userAgent' | 'requestId'> {
  return { ip: bareIp(request.ip), userAgent: userAgentOf(request), requestId: request.id }
}

/** Returns the `User-Agent` header without control characters, cut to 400 characters. Null without one. */
function userAgentOf({ headers }: FastifyRequest): string | null {
  const sent = headers['user-agent']?.replace(/\p{Cc}/gu, ' ').trim()
  if (!sent) return null
  // Count characters only if there can be too many, because every pull comes here.
  return sent.length <= maxUserAgentCharacters
    ? sent
    : Array.from(sent).slice(0, maxUserAgentCharacters).join('')
}

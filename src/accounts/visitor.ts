import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AppContext } from '../context.ts'
import { readCookie } from '../http/cookies.ts'
import { csrfToken } from '../http/csrf.ts'
import type { Visitor } from '../http/pages.ts'
import { findSession, type Session } from './sessions.ts'
import { rememberReturn } from './sign-in-returns.ts'

/** The session of the browser behind a request; null when nobody is signed in. */
export async function readSession(
  { config, db }: AppContext,
  request: FastifyRequest,
): Promise<Session | null> {
  const id = readCookie(request, config, 'session')
  return id === null ? null : await findSession(db, id)
}

/** Someone who is not signed in, but may send a form. */
export function stranger({ config }: AppContext, request: FastifyRequest, reply: FastifyReply): Visitor {
  return { account: null, csrfToken: csrfToken(request, reply, config) }
}

/** Sends the browser to sign in, and then back to the page it asked for. */
export async function askToSignIn(
  { db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const id = await rememberReturn(db, request.url)
  return reply.redirect(`/login?return=${id}`, 303)
}

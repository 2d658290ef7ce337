import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AppContext } from '../context.ts'
import { readCookie } from '../http/cookies.ts'
import { networkOf } from '../http/failure-limit.ts'
import { findSession, type Session } from './sessions.ts'
import { rememberAuthorizationLink, rememberPage } from './sign-in-returns.ts'

/** Returns the session of the request's browser. Null when nobody is signed in. */
export async function readSession(
  { config, db }: AppContext,
  request: FastifyRequest,
): Promise<Session | null> {
  const id = readCookie(request, config, 'session')
  return id === null ? null : await findSession(db, id, networkOf(request.ip))
}

/**
 * Redirects the browser to the sign-in, and then to the page. For a POST, pass the page of its form, because the browser
 * sends a GET after the sign-in.
 */
export async function redirectToSignIn(
  { db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  page = request.url,
): Promise<FastifyReply> {
  const id = await rememberPage(db, networkOf(request.ip), page)
  return reply.redirect(signInUrl(id), 303)
}

/** Like `redirectToSignIn`, for a link to the authorization endpoint with a proven client and redirect URI. */
export async function redirectLinkToSignIn(
  { db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  link: string,
): Promise<FastifyReply> {
  const id = await rememberAuthorizationLink(db, networkOf(request.ip), link)
  return reply.redirect(signInUrl(id), 303)
}

function signInUrl(returnId: string | null): string {
  return returnId === null ? '/login' : `/login?return=${returnId}`
}

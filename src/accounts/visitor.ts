import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AppContext } from '../context.ts'
import { readCookie } from '../http/cookies.ts'
import { networkOf } from '../http/failure-limit.ts'
import { findSession, type Session } from './sessions.ts'
import { rememberAuthorizationLink, rememberPage } from './sign-in-returns.ts'

/** The session of the browser that sent the request; null when nobody is signed in. */
export async function readSession(
  { config, db }: AppContext,
  request: FastifyRequest,
): Promise<Session | null> {
  const id = readCookie(request, config, 'session')
  return id === null ? null : await findSession(db, id, networkOf(request.ip))
}

/**
 * Sends the browser to sign in, and then to the page. For a POST, name the page that its form is on: after the sign-in
 * the browser sends a GET.
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

/** The same for a link to the authorization endpoint whose client and redirect URI are proven. */
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

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { AppContext } from '../context.ts'
import { type SignInProof, transaction } from '../database/database.ts'
import { actorOf } from '../http/actor.ts'
import { clearCookie, readCookie } from '../http/cookies.ts'
import type { Credentials } from './accounts.ts'
import { deleteSession, findSession } from './sessions.ts'
import { startSession } from './sign-in.ts'
import { findReturn } from './sign-in-returns.ts'

/**
 * Starts the session after all steps of a sign-in, and ends the earlier session of the browser. Returns false, without
 * a session, when the password was changed in the meantime. Call `redirectBack` next.
 */
export async function completeSignIn(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  credentials: Credentials,
  proof: SignInProof,
): Promise<boolean> {
  if (!(await startSession(context, request, reply, credentials, { proof }))) return false
  await endSession(context, request)
  clearCookie(reply, context.config, 'visit')
  return true
}

/** Ends the session that the request's browser has. */
export async function endSession({ config, db }: AppContext, request: FastifyRequest): Promise<void> {
  const id = readCookie(request, config, 'session')
  const session = id === null ? null : await findSession(db, id)
  if (!session) return
  const actor = actorOf(request, session.account.id, 'sign-out')
  await transaction(db, (tx) => deleteSession(tx, session.idHash), actor)
}

/** Redirects to the page that required the sign-in, or to the home page. */
export async function redirectBack(
  { db }: AppContext,
  reply: FastifyReply,
  returnId: string,
): Promise<FastifyReply> {
  return reply.redirect((await findReturn(db, returnId)) ?? '/', 303)
}

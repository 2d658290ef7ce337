import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Credentials } from '../../../accounts/accounts.ts'
import type { CredentialRefusal } from '../../../accounts/credential-refusal.ts'
import { clearFailedSignIns, countRefusedSignIn } from '../../../accounts/password-check.ts'
import { endSessions, findSession, insertSession, type SignInProof } from '../../../accounts/sessions.ts'
import { findKnownOrigin, originLifetimeSeconds, rememberOrigin } from '../../../accounts/sign-in-origins.ts'
import type { AppContext } from '../../../context.ts'
import type { Queryable } from '../../../database/database.ts'
import { networkOf, widerNetworkOf } from '../../../domain/client-ip.ts'
import { hashSecret, makeOpaqueId } from '../../../domain/secrets.ts'
import { clearCookie, readCookie, setCookie } from '../../cookies.ts'
import { browserOf, principalOf } from '../../principal.ts'
import { signInOriginOf } from '../../sign-in-origin.ts'
import { findReturn } from './return-path.ts'

/** Counts a refused sign-in in the events: those for wrong passwords, and those during a lock. */
export async function noteRefusedSignIn(
  db: Queryable,
  request: FastifyRequest,
  login: string,
  { status, isLocked }: CredentialRefusal,
): Promise<void> {
  const by = browserOf(request, null)
  const network = networkOf(request.ip)
  if (status === 403) return countRefusedSignIn(db, by, 'sign-in-failed', login, network)
  // Behind IPv6, the wider network may be locked: each of its 65,536 networks would write an event.
  const locked = widerNetworkOf(network) ?? network
  if (isLocked) await countRefusedSignIn(db, by, 'sign-in-locked', login, locked)
}

/**
 * Starts the session after all steps of a sign-in, and ends the earlier session of the browser. Returns the cookie of
 * the new session. Null when the password was changed or the account disabled in the meantime. Call `redirectBack` next.
 */
export async function completeSignIn(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  credentials: Credentials,
  proof: SignInProof,
): Promise<string | null> {
  const session = await startSession(context, request, reply, credentials, proof)
  if (session === null) return null
  await endSession(context, request)
  clearCookie(reply, context.config, 'visit')
  return session
}

/**
 * Starts a session after the check of the password, and stores the browser and its network. Returns the session's cookie.
 * Null when the password was changed or the account disabled in the meantime: then there is no session. Without a proof,
 * the session goes on after a change of the password.
 */
export async function startSession(
  { config, db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  credentials: Credentials,
  proof: SignInProof | null,
): Promise<string | null> {
  const origin = signInOriginOf(request, config)
  const { isKnownDevice } = await findKnownOrigin(db, credentials.accountId, origin)
  // The browser that creates an account is not reported as a new one.
  const isNewBrowser = !isKnownDevice && proof?.method !== 'invitation'
  const by = browserOf(request, credentials.accountId)
  const sessionId = await insertSession(db, by, credentials, {
    network: origin.network,
    userAgent: by.userAgent,
    isConfirmed: proof?.isRecent !== false,
    signIn: proof && { proof, isNewBrowser },
  })
  if (sessionId === null) return null
  setCookie(reply, config, 'session', sessionId)
  await rememberBrowser({ config, db }, request, reply, credentials.accountId)
  return sessionId
}

/** Stores the browser and its network as known to the account. A new browser gets a cookie. */
async function rememberBrowser(
  { config, db }: Pick<AppContext, 'config' | 'db'>,
  request: FastifyRequest,
  reply: FastifyReply,
  accountId: string,
): Promise<void> {
  const { networkHash } = signInOriginOf(request, config)
  const device = readCookie(request, config, 'device') ?? makeOpaqueId()
  await rememberOrigin(db, accountId, [networkHash, hashSecret(device)])
  setCookie(reply, config, 'device', device, originLifetimeSeconds)
}

/**
 * Lets the browser that reset the password of an account sign in at once: it is known from now on, and the failed
 * attempts that made its person forget the password, or guess at it, no longer count.
 */
export async function admitAfterReset(
  { config, db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  accountId: string,
): Promise<void> {
  await rememberBrowser({ config, db }, request, reply, accountId)
  await clearFailedSignIns(db, accountId, signInOriginOf(request, config))
}

/** Redirects to the page that required the sign-in, or to the home page. */
export async function redirectBack(
  { db }: AppContext,
  reply: FastifyReply,
  returnId: string,
): Promise<FastifyReply> {
  return reply.redirect((await findReturn(db, returnId)) ?? '/', 303)
}

/** Ends the session of the request's browser. */
export async function endSession({ config, db }: AppContext, request: FastifyRequest): Promise<void> {
  const id = readCookie(request, config, 'session')
  const session = id === null ? null : await findSession(db, id)
  if (!session) return
  const by = principalOf(request, session)
  await endSessions(db, by, session.account.id, { idHash: session.idHash }, 'sign-out')
}

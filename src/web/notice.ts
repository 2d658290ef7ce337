import { createHmac } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isSameSecret } from '../domain/secrets.ts'
import { type CookieConfig, clearCookie, readCookie, readSignedText, setCookie } from './cookies.ts'

/** A cookie has at most 4096 bytes. */
const maxCharacters = 700
/** This is long enough for the redirect after a form. */
const lifetimeSeconds = 60

/**
 * The notices of a browser without a session, by cookie. Nothing can sign them. Other sites could at most show one of
 * these sentences.
 */
const farewells = {
  'signed-out': 'You are signed out.',
  'account-deleted': 'Your account was deleted.',
} as const

/** Leaves a notice for the next page of a browser whose session has ended. */
export function leaveFarewell(
  reply: FastifyReply,
  config: CookieConfig,
  farewell: keyof typeof farewells,
): void {
  setCookie(reply, config, 'notice', farewell.padEnd(43, '-'), lifetimeSeconds)
}

/**
 * Stores a sentence in a cookie. The next page of a signed-in browser shows it once, such as “The member was added”.
 * `session` is the session's cookie after this response, if the request starts a new session.
 */
export function leaveNotice(
  request: FastifyRequest,
  reply: FastifyReply,
  config: CookieConfig,
  text: string,
  session: string | null = readCookie(request, config, 'session'),
): void {
  if (session === null) return
  const encoded = Buffer.from(text.slice(0, maxCharacters)).toString('base64url')
  setCookie(reply, config, 'notice', `${sign(session, encoded)}${encoded}`, lifetimeSeconds)
}

/**
 * Returns the sentence of the last page, and removes it. Null when there is none, or when another site wrote the
 * cookie.
 */
export function takeNotice(
  request: FastifyRequest,
  reply: FastifyReply,
  config: CookieConfig,
): string | null {
  const session = readCookie(request, config, 'session')
  const sent = readSignedText(request, config, 'notice')
  const farewell = Object.entries(farewells).find(([name]) => name.padEnd(43, '-') === sent)
  if (sent === null || (session === null && !farewell)) return null
  clearCookie(reply, config, 'notice')
  if (session === null) return farewell?.[1] ?? null
  const [signature, encoded] = [sent.slice(0, 43), sent.slice(43)]
  const isOurs = isSameSecret(signature, sign(session, encoded))
  return isOurs ? Buffer.from(encoded, 'base64url').toString() : null
}

/** Returns a signature of 43 characters. Computing it requires the session's cookie. */
function sign(session: string, encoded: string): string {
  return createHmac('sha256', session).update(`notice:${encoded}`).digest('base64url')
}

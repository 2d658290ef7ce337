import { createHmac, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type CookieConfig, clearCookie, readCookie, readSignedText, setCookie } from './cookies.ts'

/** A cookie has at most 4096 bytes. */
const maxCharacters = 700
/** This is long enough for the redirect after a form. */
const lifetimeSeconds = 60

/** The notice of a browser without a session, which nothing can sign. Other sites could at most show this sentence. */
const signedOut = { cookie: 'signed-out'.padEnd(43, '-'), text: 'You are signed out.' }

/** Leaves the notice of a sign-out for the next page of the browser, which has no session anymore. */
export function leaveSignedOutNotice(reply: FastifyReply, config: CookieConfig): void {
  setCookie(reply, config, 'notice', signedOut.cookie, lifetimeSeconds)
}

/**
 * Stores a sentence in a cookie. The next page of a signed-in browser shows it once, such as “The member was added”.
 */
export function leaveNotice(
  request: FastifyRequest,
  reply: FastifyReply,
  config: CookieConfig,
  text: string,
): void {
  const session = readCookie(request, config, 'session')
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
  if (sent === null || (session === null && sent !== signedOut.cookie)) return null
  clearCookie(reply, config, 'notice')
  if (session === null) return signedOut.text
  const [signature, encoded] = [Buffer.from(sent.slice(0, 43)), sent.slice(43)]
  const isOurs = timingSafeEqual(signature, Buffer.from(sign(session, encoded)))
  return isOurs ? Buffer.from(encoded, 'base64url').toString() : null
}

/** Returns a signature of 43 characters. Computing it requires the session's cookie. */
function sign(session: string, encoded: string): string {
  return createHmac('sha256', session).update(`notice:${encoded}`).digest('base64url')
}

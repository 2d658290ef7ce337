import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'

/**
 * The name of a cookie, without its prefix. `session` is for a signed-in browser. `visit` is for the form tokens of a
 * browser that is not signed in. `step` is for a browser that gave a password and must give a second factor. `device` is
 * for a browser that has signed in before. `notice` is a sentence for the next page. `provider` is for a browser that is
 * on its way to an OpenID Connect provider and back.
 * `invitation` is the token of an invitation whose person signs in first, and `verification` that of a link that verifies
 * an email.
 */
export type CookieName =
  | 'session'
  | 'visit'
  | 'step'
  | 'device'
  | 'notice'
  | 'provider'
  | 'invitation'
  | 'verification'

/** The settings that decide a cookie's name and flags. */
export type CookieConfig = Pick<Config, 'baseUrl'>

/** Returns the value of a cookie. Null when it is missing or does not have the format of svc's cookies. */
export function readCookie(request: FastifyRequest, config: CookieConfig, name: CookieName): string | null {
  const value = request.cookies[wireName(config, name)]
  return value !== undefined && /^[\w-]{43}$/.test(value) ? value : null
}

/** Returns a signed text that the browser sent: 43 characters of signature, then the text. Null for anything else. */
export function readSignedText(request: FastifyRequest, config: CookieConfig, name: 'notice'): string | null {
  const value = request.cookies?.[wireName(config, name)]
  return value !== undefined && /^[\w-]{43,2000}$/.test(value) ? value : null
}

/**
 * Sets a cookie. The browser deletes it when it closes, or after `maxAge` seconds. The database has the real
 * expiration.
 */
export function setCookie(
  reply: FastifyReply,
  config: CookieConfig,
  name: CookieName,
  value: string,
  maxAge?: number,
): void {
  void reply.setCookie(wireName(config, name), value, {
    ...flags(config),
    ...(maxAge !== undefined && { maxAge }),
  })
}

/** Removes the cookie from the browser. */
export function clearCookie(reply: FastifyReply, config: CookieConfig, name: CookieName): void {
  void reply.clearCookie(wireName(config, name), flags(config))
}

/** With https, the prefix `__Host-` prevents other hosts of the domain from setting the cookie. */
function wireName(config: CookieConfig, name: CookieName): string {
  return isHttps(config) ? `__Host-svc_${name}` : `svc_${name}`
}

function flags(config: CookieConfig) {
  return { path: '/', httpOnly: true, sameSite: 'lax', secure: isHttps(config) } as const
}

function isHttps(config: CookieConfig): boolean {
  return config.baseUrl.startsWith('https:')
}

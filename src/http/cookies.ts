import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'

/**
 * A cookie's bare name: `session` is a signed-in browser, `visit` one whose forms need a token before that, `device` one
 * that has signed in before. `notice` is a sentence for the next page.
 */
export type CookieName = 'session' | 'visit' | 'device' | 'notice'

/** The part of the configuration that decides a cookie's name and flags. */
export type CookieConfig = Pick<Config, 'baseUrl'>

/** The value that the browser sent; null when it sent none, or one that we never make. */
export function readCookie(request: FastifyRequest, config: CookieConfig, name: CookieName): string | null {
  const value = request.cookies[wireName(config, name)]
  return value !== undefined && /^[\w-]{43}$/.test(value) ? value : null
}

/** A signed text that the browser sent: a signature of 43 characters, and the text. Null for anything else. */
export function readSignedText(request: FastifyRequest, config: CookieConfig, name: 'notice'): string | null {
  const value = request.cookies?.[wireName(config, name)]
  return value !== undefined && /^[\w-]{43,2000}$/.test(value) ? value : null
}

/** Gives the browser the cookie, until it closes unless `maxAge` (seconds) is given. The database decides how long it works. */
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

/** Under https the `__Host-` prefix keeps other hosts of the same domain from planting the cookie. */
function wireName(config: CookieConfig, name: CookieName): string {
  return isHttps(config) ? `__Host-svc_${name}` : `svc_${name}`
}

function flags(config: CookieConfig) {
  return { path: '/', httpOnly: true, sameSite: 'lax', secure: isHttps(config) } as const
}

function isHttps(config: CookieConfig): boolean {
  return config.baseUrl.startsWith('https:')
}

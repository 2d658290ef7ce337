import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Config } from '../config.ts'

/** A cookie's bare name: `session` is a signed-in browser, `visit` one whose forms need a token before that. */
export type CookieName = 'session' | 'visit'

/** What of the configuration decides a cookie's name and flags. */
export type CookieConfig = Pick<Config, 'baseUrl'>

/** The value the browser sent; null when it sent none, or none that we could have made. */
export function readCookie(request: FastifyRequest, config: CookieConfig, name: CookieName): string | null {
  const value = request.cookies[wireName(config, name)]
  return value !== undefined && /^[\w-]{43}$/.test(value) ? value : null
}

/** Gives the browser the cookie until it closes: how long it counts is settled in the database. */
export function setCookie(reply: FastifyReply, config: CookieConfig, name: CookieName, value: string): void {
  void reply.setCookie(wireName(config, name), value, flags(config))
}

/** Takes the cookie from the browser. */
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

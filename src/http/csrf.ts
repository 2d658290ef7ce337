import { createHmac, timingSafeEqual } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { Config } from '../config.ts'
import { makeOpaqueId } from '../domain/secrets.ts'
import { type CookieConfig, readCookie, setCookie } from './cookies.ts'
import { readForm, text } from './forms.ts'
import { PageError } from './page-error.ts'

const CsrfForm = z.object({ csrf_token: text })

/** The token for the forms of the browser that holds this cookie. Only somebody who can read the cookie can compute it. */
export function csrfTokenOf(cookie: string): string {
  return createHmac('sha256', cookie).update('csrf').digest('base64url')
}

/** The token for a page's forms. A browser without a cookie of ours gets one. */
export function csrfToken(request: FastifyRequest, reply: FastifyReply, config: CookieConfig): string {
  const known = readCookie(request, config, 'session') ?? readCookie(request, config, 'visit')
  if (known) return csrfTokenOf(known)
  const visit = makeOpaqueId()
  setCookie(reply, config, 'visit', visit)
  return csrfTokenOf(visit)
}

/** Throws the 403 page unless the form comes from a page that this server sent to this browser (OAUTH 43). */
export function checkForgery(request: FastifyRequest, config: Config): void {
  if (!isOwnOrigin(request, config)) {
    throw new PageError(403, 'This form was sent from another site, so nothing was done.')
  }
  const { csrf_token: sent } = readForm(CsrfForm, request)
  const cookies = [readCookie(request, config, 'session'), readCookie(request, config, 'visit')]
  if (!cookies.some((cookie) => cookie && isSame(sent, csrfTokenOf(cookie)))) {
    throw new PageError(
      403,
      'This form is out of date, so nothing was done. Go back, reload the page and send it again.',
    )
  }
}

/**
 * Programs send no Origin header: for them the token decides. Browsers send `null` from pages without a referrer, as ours
 * are, but also from sandboxed frames and after redirects of other sites: then `Sec-Fetch-Site` must not say otherwise.
 */
function isOwnOrigin(request: FastifyRequest, config: Config): boolean {
  const { origin } = request.headers
  if (origin === undefined) return true
  if (origin === 'null') return [undefined, 'same-origin'].includes(request.headers['sec-fetch-site'])
  if (!URL.canParse(origin)) return false
  const { host, protocol } = new URL(origin)
  const own = [config.baseUrl, config.authUrl].map((address) => new URL(address).origin)
  return own.includes(origin) || host === hostOf(`${protocol}//${request.host}`)
}

/** Host and port, without a port that the scheme implies; null when the Host header is no host. */
function hostOf(address: string): string | null {
  return URL.canParse(address) ? new URL(address).host : null
}

function isSame(sent: string, expected: string): boolean {
  const given = Buffer.from(sent)
  const right = Buffer.from(expected)
  return given.length === right.length && timingSafeEqual(given, right)
}

import type { FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { csrfTokenOf } from '../accounts/sessions.ts'
import { type Config, originsOf } from '../config.ts'
import { isSameSecret, makeOpaqueId } from '../domain/secrets.ts'
import { type CookieConfig, readCookie, setCookie } from './cookies.ts'
import { readForm, text } from './forms.ts'
import { PageError } from './page-error.ts'

const CsrfForm = z.object({ csrf_token: text })

/** Returns the token for the forms of a page. A browser without a cookie gets one. */
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
  if (!cookies.some((cookie) => cookie && isSameSecret(sent, csrfTokenOf(cookie)))) {
    throw new PageError(
      403,
      'This form is out of date, so nothing was done. Go back, reload the page and send it again.',
    )
  }
}

/**
 * Returns whether the request may come from a page of svc. Programs send no Origin header, so only the token counts for
 * them. Browsers send `null` from pages without a referrer, such as those of svc, but also from sandboxed frames and
 * after redirects of other sites. Then `Sec-Fetch-Site` must be missing or `same-origin`.
 */
function isOwnOrigin(request: FastifyRequest, config: Config): boolean {
  const { origin } = request.headers
  if (origin === undefined) return true
  if (origin === 'null') return [undefined, 'same-origin'].includes(request.headers['sec-fetch-site'])
  if (!URL.canParse(origin)) return false
  const { host, protocol } = new URL(origin)
  return originsOf(config).includes(origin) || host === hostOf(`${protocol}//${request.host}`)
}

/** Returns host and port, without the default port of the scheme. Null for an invalid URL. */
function hostOf(url: string): string | null {
  return URL.canParse(url) ? new URL(url).host : null
}

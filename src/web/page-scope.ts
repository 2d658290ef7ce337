import { fastifyCookie as cookie } from '@fastify/cookie'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type Config, originsOf } from '../config.ts'
import { errcode, type Refusal } from '../domain/refusal.ts'
import { checkForgery } from './csrf.ts'
import { acceptForms, FormError } from './forms.ts'
import { logFailure } from './log-failure.ts'
import { handleInTurn } from './network-turns.ts'
import { PageError, PageRedirect } from './page-error.ts'
import { nobody, page, type Visitor } from './pages.ts'
import { refusalOf } from './refusal-of.ts'

/**
 * Makes a scope serve pages: in turn for each network, with cookies, forms, page headers with the given content security
 * policy, error pages, and a check for forged POSTs (CONTRACT 8.2). `errorHandler` may handle an error before `showError`
 * does.
 */
export async function servePages(
  scope: FastifyInstance,
  config: Config,
  policy: string,
  errorHandler: typeof showError = showError,
): Promise<void> {
  handleInTurn(scope)
  await scope.register(cookie)
  scope.removeAllContentTypeParsers()
  await acceptForms(scope)
  scope.addHook('onRequest', (_request, reply, done) => {
    setPageHeaders(reply, policy)
    done()
  })
  // Fastify handles an error that a callback hook throws like one that it passes to `done`.
  scope.addHook('preHandler', (request, _reply, done) => {
    if (request.method === 'POST') checkForgery(request, config)
    done()
  })
  scope.setErrorHandler(errorHandler)
}

const commonPolicy =
  "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'"

/** The content security policy of most pages: nothing from other sites, and forms post only to this site. */
export const pagePolicy = `${commonPolicy}; script-src 'self'; connect-src 'self'; form-action 'self'`

/**
 * The policy of pages whose form may lead to an application. Browsers apply `form-action` to the redirect after a POST
 * too, and would silently stop it after the code was issued (OAUTH 41). These pages need no script, so they allow none.
 */
export const leavingPagePolicy = commonPolicy

/**
 * The policy of pages that use a passkey, and whose form may lead to an application or a provider. Browsers offer passkeys
 * to scripts only, so it allows the scripts of this server.
 */
export const passkeyPolicy = `${commonPolicy}; script-src 'self'`

/**
 * The policy of the sign-in page, which asks for a password. Its only script is the one that offers passkeys: an injected
 * script would not run, also not another one of this server. `path` is the script's path. Policies have absolute URLs only,
 * so it allows the path on each origin of the pages.
 */
export const policyOfOneScript = (path: string, config: Config) =>
  `${commonPolicy}; script-src ${originsOf(config)
    .map((origin) => origin + path)
    .join(' ')}`

/**
 * Sets the headers of every page and of every redirect between pages. No Cross-Origin-Opener-Policy: an application may
 * run its authorization in a popup window, and would lose that window at the first page that sends the header.
 */
export function setPageHeaders(reply: FastifyReply, policy: string): void {
  reply.headers({
    'cache-control': 'no-store',
    'content-security-policy': policy,
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  })
}

const errorPage = page<{ status: number; title: string; message: string; next: PageError['next'] }>('error')

const titles: Record<number, string> = {
  400: 'Bad request',
  403: 'Access denied',
  404: 'Not found',
  405: 'Method not allowed',
  409: 'This conflicts with the current state',
  410: 'This no longer exists',
  413: 'Request too large',
  415: 'Unsupported content type',
  429: 'Too many attempts',
  500: 'Something went wrong',
  503: 'Temporarily unavailable',
}

/** Shows the error page for any thrown error. A bug is logged once, and shown without detail. */
export async function showError(
  error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  if (error instanceof PageRedirect) return reply.redirect(error.location, 303)
  if (error instanceof PageError) return showPageError(error, reply)
  if (error instanceof FormError) {
    const step =
      request.method === 'GET'
        ? 'Open the page from its link again.'
        : 'Go back, reload the page, and submit the form once.'
    return showPageError(new PageError(400, `${error.message} ${step}`), reply)
  }
  const refusal = refusalOf(error)
  if (refusal.errcode === errcode.aborted)
    request.log.warn({ err: error, req: request }, 'a change lost to another one')
  logFailure(request, refusal, error, 'a page failed')
  return showPageError(pageErrorOf(refusal, request), reply)
}

/** Returns the page of a refusal. */
function pageErrorOf(refusal: Refusal, { method }: FastifyRequest): PageError {
  const { errcode: code, status, explanation, retryAfterSeconds: seconds } = refusal
  const options = seconds === undefined ? {} : { headers: { 'retry-after': `${seconds}` } }
  if (code === errcode.internal)
    return new PageError(
      status,
      'The server has an internal error, and it was logged. Please try again.',
      options,
    )
  // Whether a commit has come before an outage is unknown.
  const isUndone = method === 'POST' && status < 500
  return new PageError(status, isUndone ? `Nothing was changed. ${explanation}` : explanation, options)
}

/**
 * Shows the page of an error, with the menu of the person who is signed in. No page has a URL that ends with a slash, so
 * such a URL redirects to the one without it.
 */
export async function showPageError(error: PageError, reply: FastifyReply): Promise<FastifyReply> {
  const page = error.status === 404 ? withoutSlash(reply.request) : null
  if (page !== null) return reply.redirect(page, 301)
  const visitor = await visitorOf(error, reply)
  reply.code(error.status).headers(error.headers)
  return errorPage(reply, visitor, {
    ...contentOf(error),
    next: error.next ?? nextStep(error, reply.request),
  })
}

/** Returns the link of a page whose server failed: the page once more. A sent form is not sent again by a link. */
function nextStep({ status }: PageError, { method, url }: FastifyRequest): PageError['next'] {
  return status >= 500 && method === 'GET' ? { url, label: 'Try again' } : null
}

/**
 * Returns the URL without the slash at the end of its path. Null when there is no such slash, or when the path has
 * characters that svc does not use in URLs: `//example.com/` must not become a redirect to another host.
 */
function withoutSlash({ method, url }: FastifyRequest): string | null {
  const [, path, query = ''] = /^((?:\/[\w~-][\w.~-]*)+)\/(\?.*)?$/.exec(url) ?? []
  return path === undefined || method !== 'GET' ? null : path + query
}

/**
 * Returns the visitor for the menu. Null when it is unknown: the page then has no menu, and no link to sign in. While the
 * server is unavailable, no further query is sent to the database.
 */
async function visitorOf({ status }: PageError, { request, server }: FastifyReply): Promise<Visitor | null> {
  if (status > 500) return null
  return server.findVisitor(request).then(
    (session) => session ?? nobody,
    () => null,
  )
}

/**
 * Shows the error for a URL that cannot be decoded. Fastify does not know its scope yet, so the reply has no `view`.
 */
export async function showUndecodableUrl(
  _error: FastifyError,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const error = new PageError(400, 'This URL cannot be read.')
  // No hook has run, so nothing has read the cookies yet.
  request.cookies = cookie.parse(request.headers.cookie ?? '')
  const visitor = await visitorOf(error, reply)
  setPageHeaders(reply, pagePolicy)
  void reply.code(400).type('text/html; charset=utf-8')
  const content = { ...contentOf(error), visitor, path: '', url: '/', logId: request.id }
  void reply.send(await request.server.view('error', content))
}

function contentOf({ status, message, next }: PageError) {
  return { status, title: titles[status] ?? 'The request failed', message, next }
}

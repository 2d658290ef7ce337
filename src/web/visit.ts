import type { FastifyReply, FastifyRequest, RouteGenericInterface } from 'fastify'
import { findFactors, hasFactor } from '../accounts/second-factor/factors.ts'
import { findSession, type Session } from '../accounts/sessions.ts'
import type { AppContext } from '../context.ts'
import { networkOf } from '../domain/client-ip.ts'
import { type Act, needsProof } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import { readCookie } from './cookies.ts'
import { continueWith, holdRequest, resumedId, resumeForm } from './held-forms.ts'
import { PageError, PageRedirect } from './page-error.ts'
import { signAuthorizationLink, signPage } from './pages/sign-in/return-path.ts'
import { principalOf } from './principal.ts'

/** A signed-in request of a page. A page for members only does not run without it (see `signedIn`). */
export interface Visit {
  session: Session
  /** The person at this browser, for everything that they change. */
  by: Principal
  /** Leads to the page that asks for a proof of identity, when the act needs a recent one. `page` as in `confirm`. */
  prove: (act: Act, page?: string) => Promise<void>
  /**
   * Leads to the page that asks for a proof of identity when the last one is older than 15 minutes, and then back to the
   * page, by default the page of the form.
   */
  confirm: (page?: string) => Promise<void>
  /** The same, for a second factor or a passkey of the last five minutes. No other proof is enough. */
  proveFactor: (page?: string) => Promise<void>
}

interface VisitOptions<Route extends RouteGenericInterface> {
  /** The page to open after a sign-in, for a POST: the page of its form. The default is the page itself. */
  form?: string | ((request: FastifyRequest<Route>) => string)
  /** Asks to sign in otherwise than with a redirect to `form`. */
  signIn?: (request: FastifyRequest<Route>, reply: FastifyReply) => Promise<FastifyReply>
  /** True for the pages that a person without a required second factor needs to set one up. */
  mayLackFactor?: true
}

type VisitHandler<Route extends RouteGenericInterface> = (
  visit: Visit,
  request: FastifyRequest<Route>,
  reply: FastifyReply,
) => Promise<unknown>

type Handler<Route extends RouteGenericInterface> = (
  request: FastifyRequest<Route>,
  reply: FastifyReply,
) => Promise<unknown>

/**
 * Makes the handler of a page for people who are signed in. Everybody else is asked to sign in first, and people who must
 * have a second factor and have none are led to the page that sets one up.
 */
export function signedIn<Route extends RouteGenericInterface>(
  context: AppContext,
  handler: VisitHandler<Route>,
): Handler<Route>
export function signedIn<Route extends RouteGenericInterface>(
  context: AppContext,
  options: VisitOptions<Route>,
  handler: VisitHandler<Route>,
): Handler<Route>
export function signedIn<Route extends RouteGenericInterface>(
  context: AppContext,
  ...[first, second]: [VisitHandler<Route>] | [VisitOptions<Route>, VisitHandler<Route>]
): Handler<Route> {
  const [options, handler] =
    second === undefined ? [{}, first as VisitHandler<Route>] : [first as VisitOptions<Route>, second]
  const { form, signIn, mayLackFactor = false } = options
  return async (request, reply) => {
    const session = await readSession(context, request, { mayLackFactor })
    if (!session && signIn) return signIn(request, reply)
    const own = typeof form === 'function' ? form(request) : (form ?? request.url)
    if (!session) return redirectToSignIn(context, request, reply, own)
    await resumeHeldForm(context, request, session)
    const confirm = (page = own) => requireConfirmation(context, request, session, page)
    const visit: Visit = {
      session,
      by: principalOf(request, session),
      prove: async (act, page) => (needsProof(act) ? confirm(page) : undefined),
      confirm,
      proveFactor: (page = own) => requireFactorProof(context, request, session, page),
    }
    return handler(visit, request, reply)
  }
}

/** Makes the handler of a page for everybody. It gets the session of the browser, or null. */
export function anybody<Route extends RouteGenericInterface>(
  context: AppContext,
  handler: (session: Session | null, request: FastifyRequest<Route>, reply: FastifyReply) => Promise<unknown>,
  { mayLackFactor = false } = {},
): Handler<Route> {
  return async (request, reply) =>
    handler(await readSession(context, request, { mayLackFactor }), request, reply)
}

/**
 * Returns the session of the request's browser. Null when nobody is signed in. If the person must have a second
 * factor and has none, it throws PageRedirect to the page that sets one up, unless `mayLackFactor`.
 */
export async function readSession(
  context: AppContext,
  request: FastifyRequest,
  { mayLackFactor = false } = {},
): Promise<Session | null> {
  const { config, db } = context
  const id = readCookie(request, config, 'session')
  if (id === null) return null
  const session = await findSession(db, id, networkOf(request.ip), config.requireSecondFactor)
  if (!session?.lacksFactor || mayLackFactor) return session
  throw new PageRedirect(withReturn('/settings/second-factor', (await signRequest(context, request)) ?? ''))
}

/**
 * Throws PageRedirect to the page that asks for a password or second factor, when the session's last proof of identity
 * is older than 15 minutes. Call it before a sensitive action. The browser then returns to the page. A POST goes on with
 * what was sent. If that cannot be kept, the browser returns to `page`, the page of its form, which says that nothing was
 * done yet.
 */
export async function requireConfirmation(
  context: AppContext,
  request: FastifyRequest,
  session: Session,
  page = request.url,
): Promise<void> {
  if (!session.isConfirmed) await askForProof(context, request, session, page)
}

/**
 * Like `requireConfirmation`, for a second factor or a passkey of the last five minutes. Somebody who has neither is told
 * to set one up.
 */
async function requireFactorProof(
  context: AppContext,
  request: FastifyRequest,
  session: Session,
  page: string,
): Promise<void> {
  if (session.hasProvedFactor) return
  if (!hasFactor(await findFactors(context.db, session.account.id))) {
    throw new PageError(
      403,
      'This needs a second factor, and your account has none. Set up a passkey or an authenticator app, and try again. Nothing was done yet.',
      { next: { url: '/settings/second-factor', label: 'Set up a second factor' } },
    )
  }
  await askForProof(context, request, session, page, { need: 'factor' })
}

/** Throws PageRedirect to the page that asks for a proof. The form of the request is kept, if that is possible. */
async function askForProof(
  context: AppContext,
  request: FastifyRequest,
  session: Session,
  page: string,
  more: { need?: 'factor' } = {},
): Promise<never> {
  if (request.method !== 'POST') throw await confirmationOf(context, page, more)
  const next = await holdRequest(context, request, session, page)
  throw next === null
    ? await confirmationOf(context, page, { ...more, form: 'lost' })
    : await confirmationOf(context, next, { ...more, form: 'held' })
}

/**
 * Puts the form that the person sent before a confirmation in the place of the body of the request that goes on with it.
 * A session whose confirmation is too old is asked again.
 */
export async function resumeHeldForm(
  context: AppContext,
  request: FastifyRequest,
  session: Session,
): Promise<void> {
  const id = resumedId(request)
  if (id === null) return
  if (!session.isConfirmed) throw await confirmationOf(context, continueWith(id), { form: 'held' })
  await resumeForm(context, request, session, id)
}

/** Returns the redirect to the page that asks for a proof, and that then returns to `page`. */
async function confirmationOf(
  { db }: AppContext,
  page: string,
  more: { form?: 'held' | 'lost'; need?: 'factor' } = {},
): Promise<PageRedirect> {
  return new PageRedirect(withReturn('/settings/confirm-access', (await signPage(db, page)) ?? '', more))
}

/**
 * Throws PageRedirect to the page that asks for a proof of identity, when the act needs a recent one. `page` is the page
 * of the form, as in `requireConfirmation`.
 */
export async function requireProofFor(
  act: Act,
  context: AppContext,
  request: FastifyRequest,
  session: Session,
  page = request.url,
): Promise<void> {
  if (needsProof(act)) await requireConfirmation(context, request, session, page)
}

/** Signs the path of a request, to return to it. Nothing returns to a form: people open its page again from the menu. */
async function signRequest({ db }: AppContext, request: FastifyRequest): Promise<string | null> {
  if (request.method !== 'GET') return null
  const isLink = request.routeOptions.url === '/oauth2/auth'
  return isLink ? signAuthorizationLink(db, request.url) : signPage(db, request.url)
}

/** Adds the page to return to, and the parameters `more`, to a path. An empty page is left out. */
export function withReturn(path: string, returnId: string, more: Record<string, string> = {}): string {
  const query = new URLSearchParams({ ...(returnId === '' ? {} : { return: returnId }), ...more }).toString()
  return query === '' ? path : `${path}?${query}`
}

/**
 * Redirects the browser to the sign-in, and then to the page. For a POST, pass the page of its form, because the
 * browser sends a GET after the sign-in.
 */
export async function redirectToSignIn(
  { db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  page = request.url,
): Promise<FastifyReply> {
  const id = await signPage(db, page)
  return reply.redirect(withReturn('/login', id ?? ''), 303)
}

/** Like `redirectToSignIn`, for a link to the authorization endpoint whose client and redirect URI are checked. */
export async function redirectLinkToSignIn(
  { db }: AppContext,
  reply: FastifyReply,
  link: string,
  { loginHint }: { loginHint: string | null } = { loginHint: null },
): Promise<FastifyReply> {
  const id = await signAuthorizationLink(db, link)
  return reply.redirect(
    withReturn('/login', id ?? '', loginHint === null ? {} : { login_hint: loginHint }),
    303,
  )
}

/** Redirects the browser to the page that asks for a proof of identity, and then to the link. */
export async function redirectLinkToConfirmation(
  { db }: AppContext,
  reply: FastifyReply,
  link: string,
): Promise<FastifyReply> {
  const id = await signAuthorizationLink(db, link)
  return reply.redirect(withReturn('/settings/confirm-access', id ?? ''), 303)
}

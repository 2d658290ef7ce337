import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Session } from '../../accounts/sessions.ts'
import type { AppContext } from '../../context.ts'
import { type Queryable, transaction } from '../../database/database.ts'
import { hashSecret, makeOpaqueId, makeSecret } from '../../domain/secrets.ts'
import type { Application } from '../../oauth/applications.ts'
import {
  insertAuthorizationRequest,
  isCoveredByGrant,
  issueCodeForGrant,
  type RepeatedRequest,
} from '../../oauth/authorization-requests.ts'
import { noteSignIn } from '../../openid/sign-ins.ts'
import { sentFormOf } from '../forms.ts'
import { maxLinkCharacters } from '../pages/sign-in/return-path.ts'
import { readSession, redirectLinkToConfirmation, redirectLinkToSignIn } from '../visit.ts'
import {
  AuthorizationError,
  AuthorizationPageError,
  type AuthorizeRequest,
  isSilent,
  type ProvenLink,
  proveLink,
  type ResponseTarget,
  readAuthorizeRequest,
  sendBack,
} from './authorize-request.ts'
import { showConsent } from './consent.ts'
import { type AuthorizeContext, findClientOf, SignInFirst } from './document-client.ts'
import { hasFreshProof, markLink, withoutMark } from './fresh-proof.ts'
import { findRefusal } from './refusals.ts'

/** Authorization endpoint: SPEC 4.1, RFC 6749 §4.1.1. The decision is handled in consent.ts. */
export async function authorizeRoute(app: FastifyInstance, context: AuthorizeContext): Promise<void> {
  // A HEAD request of a link preview must do nothing that the GET does (OAUTH 49).
  app.head('/oauth2/auth', async (_request, reply) => reply.type('text/html; charset=utf-8').send())

  app.get('/oauth2/auth', { exposeHeadRoute: false }, async (request, reply) => {
    const { config, db } = context
    const link = await proveOrSignIn(context, request, reply)
    if (link === null) return reply
    const asked = readAuthorizeRequest(link, config.baseUrl)
    // With `prompt=none` no page may be shown, so the application gets the error below.
    const session = await readSession(context, request, { mayLackFactor: asked.prompt === 'none' })
    const signInIsRequired = (reason: string) => new AuthorizationError(link.target, 'login_required', reason)
    const { maxAgeSeconds } = asked
    // An application that the person has not agreed to learns nothing about the account by the responses below.
    if (session && asked.prompt === 'none' && !(await isAgreedTo(db, session, link, asked)))
      throw consentRequired(link.target)
    if (session && !session.lacksFactor) {
      const refusal = await findRefusal(context, session.account.id, asked)
      if (refusal && (asked.prompt === 'none' || (await isAgreedTo(db, session, link, asked))))
        throw new AuthorizationError(link.target, refusal.code, refusal.description)
      // The response to an approval is the error then.
      const shown: AuthorizeRequest = refusal ? { ...asked, prompt: 'ask' } : asked
      if (maxAgeSeconds === null || (await hasFreshProof(db, session, request.url, maxAgeSeconds)))
        return await redirectOrAsk(context, request, reply, session, link, shown)
      if (asked.prompt === 'none') throw signInIsRequired('The last sign-in is too old.')
      return await redirectLinkToConfirmation(context, reply, await markLink(db, request.url))
    }
    if (asked.prompt !== 'none') {
      const back = maxAgeSeconds === null ? request.url : await markLink(db, request.url)
      return await redirectLinkToSignIn(context, reply, back, asked)
    }
    const reason = session
      ? `The account needs a second factor. Set one up at ${config.baseUrl}/settings/second-factor.`
      : 'Nobody is signed in.'
    throw signInIsRequired(reason)
  })
}

/**
 * Checks the client and the redirect URI of a request. Null when the browser was sent to the sign-in first: only for somebody who
 * is signed in svc reads a client metadata document (OPENID 278).
 */
async function proveOrSignIn(
  context: AuthorizeContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<ProvenLink | null> {
  const findClient = findClientOf(context, request, async () => {
    const session = await readSession(context, request, { mayLackFactor: true })
    return session?.lacksFactor ? null : session
  })
  try {
    return await proveLink(findClient, withoutMark(request.url))
  } catch (error) {
    if (!(error instanceof SignInFirst)) throw error
    if (isSilent(request.url)) throw new AuthorizationPageError('client_id is not known here.')
    // Leads to the page that sets up the missing second factor.
    await readSession(context, request)
    // The sign-in is also the proof that such a request asks for.
    const asksForProof = /[?&](?:max_age|prompt)=/.test(request.url)
    const back = asksForProof ? await markLink(context.db, request.url) : request.url
    await redirectLinkToSignIn(context, reply, back)
    return null
  }
}

/**
 * A hook that redirects a request that was sent as a form, also by another site, to the same request as a link: one for
 * authorization (OPENID 253), or for a sign-out (OPENID 257). It does nothing else. The form of the consent page has a decision,
 * and never a client id.
 */
export async function redirectPostedRequest(
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply | undefined> {
  const form = sentFormOf(request)
  const { url } = request.routeOptions
  if (request.method !== 'POST' || !form) return undefined
  const isRequest = url === '/oauth2/auth' && form.has('client_id') && !form.has('decision')
  if (!isRequest && url !== '/oauth2/logout') return undefined
  const pairs = [...form].flatMap(([name, values]) =>
    values.map((value) => `${encodeURIComponent(name)}=${encodeURIComponent(value)}`),
  )
  const link = `${url}?${pairs.join('&')}`
  if (link.length > maxLinkCharacters)
    throw new AuthorizationPageError(`The request is longer than ${maxLinkCharacters} characters.`)
  return reply.redirect(link, 303)
}

/** Returns whether an earlier consent is enough for a request, and covers it (OAUTH 47). */
async function isAgreedTo(
  db: Queryable,
  session: Session,
  link: ProvenLink,
  asked: AuthorizeRequest,
): Promise<boolean> {
  return (
    mayLeaveOutConsent(link.application, link.target.redirectUri) &&
    (await isCoveredByGrant(db, repeatedRequestOf(session, link, asked)))
  )
}

/** Returns what of a request an earlier consent must cover, and what its code is bound to. */
function repeatedRequestOf(
  { account }: Session,
  { application, target }: ProvenLink,
  { scopes, resources, codeChallenge }: AuthorizeRequest,
): RepeatedRequest {
  return {
    accountId: account.id,
    applicationId: application.id,
    redirectUri: target.redirectUri,
    scopes,
    resourceScope: application.resourceScope,
    resources,
    codeChallenge,
  }
}

function consentRequired(target: ResponseTarget): AuthorizationError {
  return new AuthorizationError(target, 'consent_required', 'The account must give its consent first.')
}

/**
 * Sends the browser back to the application if an earlier consent covers the request (OAUTH 47). Otherwise shows the
 * page.
 */
async function redirectOrAsk(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  session: Session,
  proven: ProvenLink,
  sent: AuthorizeRequest,
): Promise<FastifyReply> {
  const { config, db } = context
  const { application, target } = proven
  const { prompt, scopes } = sent
  const asked = repeatedRequestOf(session, proven, sent)
  if (prompt !== 'ask' && mayLeaveOutConsent(application, target.redirectUri)) {
    const code = makeSecret('code')
    const codeToStore = { hash: hashSecret(code), lifetimeSeconds: config.lifetimes.code }
    const isIssued = scopes.includes('openid')
      ? await transaction(db, async (tx) => {
          if (!(await issueCodeForGrant(tx, asked, codeToStore))) return false
          await noteSignIn(tx, codeToStore.hash, session.idHash, sent, config.lifetimes)
          return true
        })
      : await issueCodeForGrant(db, asked, codeToStore)
    if (isIssued) return sendBack(reply, target, config.authUrl, { code })
  }
  if (prompt === 'none') throw consentRequired(target)
  const id = makeOpaqueId()
  const link = request.url
  await insertAuthorizationRequest(db, hashSecret(id), {
    ...asked,
    link,
    state: target.state,
    deviceHash: null,
  })
  return await showConsent(
    context,
    reply,
    session,
    { ...asked, id, application, device: null, link },
    { search: '', chosen: null },
  )
}

/**
 * Returns whether an earlier consent is enough for a request with this redirect URI (OAUTH 47). Not that for an application that
 * nobody has reviewed (OPENID 277). Any program can listen on loopback
 * or open links of a private-use scheme, and pass itself off as a public client (OPENID 209, RFC 8252 §8.6).
 */
function mayLeaveOutConsent(
  { isPublic, redirectUri: registered, redirectUris, isUnreviewed }: Application,
  redirectUri: string,
): boolean {
  const isRegistered = redirectUris === null ? redirectUri === registered : redirectUris.includes(redirectUri)
  return isRegistered && !isUnreviewed && !(isPublic && !redirectUri.startsWith('https:'))
}

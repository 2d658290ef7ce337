import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Session } from '../../accounts/sessions.ts'
import type { AppContext } from '../../context.ts'
import { hashSecret, makeOpaqueId, makeSecret } from '../../domain/secrets.ts'
import type { Application } from '../../oauth/applications.ts'
import { insertAuthorizationRequest, issueCodeForGrant } from '../../oauth/authorization-requests.ts'
import { readSession, redirectLinkToSignIn } from '../visit.ts'
import {
  AuthorizationError,
  type AuthorizeRequest,
  type ProvenLink,
  proveLink,
  readAuthorizeRequest,
  sendBack,
} from './authorize-request.ts'
import { showConsent } from './consent.ts'

/** Authorization endpoint: SPEC 4.1, RFC 6749 §4.1.1. The decision is handled in consent.ts. */
export async function authorizeRoute(app: FastifyInstance, context: AppContext): Promise<void> {
  // A HEAD request of a link preview must do nothing that the GET does (OAUTH 49).
  app.head('/oauth2/auth', async (_request, reply) => reply.type('text/html; charset=utf-8').send())

  app.get('/oauth2/auth', { exposeHeadRoute: false }, async (request, reply) => {
    const link = await proveLink(context.db, request.url)
    const asked = readAuthorizeRequest(link)
    // With `prompt=none` no page may be shown, so the application gets the error below.
    const session = await readSession(context, request, { mayLackFactor: asked.prompt === 'none' })
    if (session && !session.lacksFactor)
      return await redirectOrAsk(context, request, reply, session, link, asked)
    if (asked.prompt !== 'none') return await redirectLinkToSignIn(context, reply, request.url)
    const reason = session
      ? `The account needs a second factor. Set one up at ${context.config.baseUrl}/settings/second-factor.`
      : 'Nobody is signed in.'
    throw new AuthorizationError(link.target, 'login_required', reason)
  })
}

/**
 * Sends the browser back to the application if an earlier consent covers the request (OAUTH 47). Otherwise shows the
 * page.
 */
async function redirectOrAsk(
  { config, db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  session: Session,
  { application, target }: ProvenLink,
  { scopes, codeChallenge, prompt }: AuthorizeRequest,
): Promise<FastifyReply> {
  const asked = {
    accountId: session.account.id,
    applicationId: application.id,
    redirectUri: target.redirectUri,
    scopes,
    resourceScope: application.resourceScope,
    codeChallenge,
    deviceHash: null,
  }
  if (prompt !== 'ask' && mayLeaveOutConsent(application, target.redirectUri)) {
    const code = makeSecret('code')
    const codeToStore = { hash: hashSecret(code), lifetimeSeconds: config.lifetimes.code }
    if (await issueCodeForGrant(db, asked, codeToStore))
      return sendBack(reply, target, config.authUrl, { code })
  }
  if (prompt === 'none') {
    throw new AuthorizationError(target, 'consent_required', 'The account must give its consent first.')
  }
  const id = makeOpaqueId()
  const link = request.url
  await insertAuthorizationRequest(db, hashSecret(id), { ...asked, link, state: target.state })
  return await showConsent(
    db,
    reply,
    session,
    { id, ...asked, application, device: null, link },
    { search: '', chosen: null },
  )
}

/**
 * Returns whether an earlier consent may answer a request with this redirect URI (OAUTH 47). Any program can listen on loopback
 * or open links of a private-use scheme, and pass itself off as a public client (OPENID 209, RFC 8252 §8.6).
 */
function mayLeaveOutConsent(
  { isPublic, redirectUri: registered }: Application,
  redirectUri: string,
): boolean {
  return redirectUri === registered && !(isPublic && !redirectUri.startsWith('https:'))
}

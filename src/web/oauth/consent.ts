import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { endSessions, type Session } from '../../accounts/sessions.ts'
import type { AppContext } from '../../context.ts'
import { transaction } from '../../database/database.ts'
import type { ResourceScope } from '../../domain/permissions.ts'
import { describeResources } from '../../domain/resources.ts'
import { describeResourceScope, describeScopes, type ScopeGroup } from '../../domain/scope-descriptions.ts'
import { coversAll } from '../../domain/scopes.ts'
import { hashSecret, makeSecret } from '../../domain/secrets.ts'
import { requireLivePrincipal } from '../../groups/live-principal.ts'
import { type RepositoryPicker, readPicker } from '../../groups/repository-choices.ts'
import {
  type AskingDevice,
  type AuthorizationRequest,
  approveAuthorizationRequest,
  type ConsentApplication,
  type Decision,
  denyAuthorizationRequest,
  findAuthorizationRequest,
  holdAuthorizationRequest,
} from '../../oauth/authorization-requests.ts'
import { findAuthorization, newScopes } from '../../oauth/authorizations.ts'
import { checkRedirectUri, describeTarget, isOnLoopback } from '../../oauth/redirect-uri.ts'
import { noteSignIn } from '../../openid/sign-ins.ts'
import { clearCookie } from '../cookies.ts'
import { readForm, text, textList } from '../forms.ts'
import { PageError } from '../page-error.ts'
import { page } from '../pages.ts'
import { redirectLinkToConfirmation, redirectLinkToSignIn, signedIn, type Visit } from '../visit.ts'
import { AuthorizationPageError, readOpenidRequest, sendBack } from './authorize-request.ts'
import { hasFreshProof, markLink } from './fresh-proof.ts'
import { findRefusal } from './refusals.ts'

/** The maximum number of chosen repositories. Each costs a look-up. */
const maxChosen = 500
const maxSearchCharacters = 200

const ConsentForm = z.object({ decision: text, request: text, search: text, repository: textList })

/** The content of a consent page. */
interface Question {
  /** The id of the stored request. The form contains no other part of the request. */
  id: string
  application: ConsentApplication
  scopes: readonly string[]
  resourceScope: ResourceScope
  resources: readonly string[] | null
  /** Null for the request of a device. */
  redirectUri: string | null
  device: AskingDevice | null
  /** The link that led here. That of a device has its code. */
  link: string
}

/** The current choices on the page. */
interface Draft {
  search: string
  /** Paths of the selected repositories. Null on the first page, which selects those that the application already has. */
  chosen: readonly string[] | null
  problem?: string
}

/** A warning about the application of a client metadata document (OPENID 277). */
interface DocumentWarning {
  /** The host of its client id. */
  documentHost: string
  isUnreviewed: boolean
  /** Whether it returns only to this computer, where any program can take its place. */
  isLocalOnly: boolean
}

const consentPage = page<{
  requestId: string
  application: ConsentApplication
  /** When the person last authorized it. Null if it has no access. */
  grantedAt: Date | null
  scopeGroups: ScopeGroup[]
  /** The scopes that it does not have yet. Empty if it has no access: then all are new. */
  newScopes: readonly string[]
  resourceScope: string
  /** Where its tokens will work. Null: everywhere. */
  resources: string | null
  /** Where the decision takes the browser. Null for the request of a device. */
  target: string | null
  /** The device that asks, with the code that it shows. */
  device: (AskingDevice & { userCode: string }) | null
  picker: RepositoryPicker | null
  /** What to know about an application that a client metadata document describes. Null if there is nothing to warn of. */
  warning: DocumentWarning | null
  /** Paths of the repositories to which it already has access. */
  reached: readonly string[]
  problem: string | null
}>('oauth/consent')

/**
 * Sends the consent page. It shows exactly the access of the new grant, and what of it is more than the application has
 * (OAUTH 153). `reply` may already have a status.
 */
export async function showConsent(
  { config, db }: Pick<AppContext, 'config' | 'db'>,
  reply: FastifyReply,
  session: Session,
  question: Question,
  draft: Draft,
): Promise<FastifyReply> {
  const { application, scopes, resourceScope, resources } = question
  const accountId = session.account.id
  const former = await findAuthorization(db, accountId, application.clientId)
  const reached = [...new Set(former?.access.flatMap(({ repositories }) => repositories))]
  const chosen = draft.chosen ?? reached.slice(0, maxChosen)
  return consentPage(reply, session, {
    requestId: question.id,
    application,
    grantedAt: former?.grantedAt ?? null,
    scopeGroups: describeScopes(scopes),
    newScopes: former ? newScopes(former, { scopes, resourceScope, repositories: reached, resources }) : [],
    resourceScope: describeResourceScope(resourceScope),
    resources: resources && describeResources(resources, config.baseUrl),
    target: question.redirectUri && describeTarget(question.redirectUri),
    device: question.device && { ...question.device, userCode: userCodeOf(question.link) },
    picker:
      resourceScope === 'specified'
        ? await readPicker(db, accountId, { search: draft.search, chosen })
        : null,
    warning: warnOf(application),
    reached,
    problem: draft.problem ?? null,
  })
}

function warnOf({ clientId, isUnreviewed, redirectUris }: ConsentApplication): DocumentWarning | null {
  if (redirectUris === null) return null
  const isLocalOnly = redirectUris.every(isOnLoopback)
  if (!isUnreviewed && !isLocalOnly) return null
  return { documentHost: new URL(clientId).host, isUnreviewed, isLocalOnly }
}

/** Handles the forms of the consent page: approve, deny, search for repositories, or switch the account. */
export async function consentRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context
  const signIn = (request: FastifyRequest, reply: FastifyReply) =>
    redirectToSignInAgain(context, request, reply)

  app.post(
    '/oauth2/auth',
    signedIn(context, { signIn }, async ({ session, by }, request, reply) => {
      switch (readForm(ConsentForm, request).decision) {
        case 'approve':
          return await approve(context, request, reply, { session, by })
        case 'deny':
          return await deny(context, request, reply, session)
        case 'search':
          return await askAgain(context, request, reply, session)
        default:
          throw new PageError(
            400,
            'The form was sent without a decision. Go back and choose one of its buttons.',
          )
      }
    }),
  )

  app.post(
    '/oauth2/auth/switch',
    signedIn(context, { signIn }, async ({ session, by }, request, reply) => {
      const { link } = await findOpenRequest(context, request, session)
      await endSessions(db, by, session.account.id, { idHash: session.idHash }, 'sign-out')
      clearCookie(reply, config, 'session')
      return await redirectLinkToSignIn(context, reply, link)
    }),
  )
}

async function approve(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { session, by }: Pick<Visit, 'session' | 'by'>,
): Promise<FastifyReply> {
  const { config, db } = context
  const code = makeSecret('code')
  const idHash = hashSecret(readForm(ConsentForm, request).request)
  const chosen = readChosen(request)
  if (chosen.length > maxChosen) {
    const problem = `Choose at most ${maxChosen} repositories.`
    return await askAgain(context, request, reply.code(422), session, problem)
  }
  const accountId = session.account.id
  const codeToStore = { hash: hashSecret(code), lifetimeSeconds: config.lifetimes.code }
  const decision = await transaction(
    db,
    async (tx) => {
      await requireLivePrincipal(tx, by)
      const { link, scopes, resources, redirectUri, deviceCodeHash } = refuseClosed(
        await holdAuthorizationRequest(tx, idHash),
        session,
      )
      const openid = readOpenidRequest(link)
      const { maxAgeSeconds } = openid
      // The page may have been open for longer than the proof may be old (OPENID 247).
      if (maxAgeSeconds !== null && !(await hasFreshProof(tx, session, link, maxAgeSeconds)))
        return { staleLink: link }
      // The page of a device asks for nothing that the account cannot have.
      const refusal =
        redirectUri === null
          ? null
          : await findRefusal({ config, db: tx }, accountId, { ...openid, resources })
      if (refusal) {
        const denied = await denyAuthorizationRequest(tx, idHash, accountId)
        return denied && { ...denied, refusal }
      }
      const approved = await approveAuthorizationRequest(tx, idHash, accountId, chosen, codeToStore)
      const codeHash = deviceCodeHash ?? codeToStore.hash
      if (approved && scopes.includes('openid'))
        await noteSignIn(tx, codeHash, session.idHash, openid, config.lifetimes)
      return approved
    },
    by,
  )
  if (decision && 'staleLink' in decision)
    return await redirectLinkToConfirmation(context, reply, await markLink(db, decision.staleLink))
  if (decision && 'refusal' in decision) {
    const { code: error, description } = decision.refusal
    return goBack(reply, decision, config.authUrl, { error, error_description: description })
  }
  if (decision) return goBack(reply, decision, config.authUrl, { code })
  return await askAgain(context, request, reply.code(422), session, 'Choose at least one repository.')
}

async function deny(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  session: Session,
): Promise<FastifyReply> {
  const idHash = hashSecret(readForm(ConsentForm, request).request)
  const decision = await transaction(context.db, async (tx) => {
    refuseClosed(await holdAuthorizationRequest(tx, idHash), session)
    return denyAuthorizationRequest(tx, idHash, session.account.id)
  })
  if (!decision) {
    await findOpenRequest(context, request, session)
    throw new Error('A request that is still open could not be denied.')
  }
  return goBack(reply, decision, context.config.authUrl, {
    error: 'access_denied',
    error_description: 'The account did not give its consent.',
  })
}

/** Sends the browser back to the application with the response. After a decision about a device, shows what was decided. */
function goBack(
  reply: FastifyReply,
  { redirectUri, state }: Decision,
  issuer: string,
  response: Parameters<typeof sendBack>[3],
): FastifyReply {
  if (redirectUri === null)
    return reply.redirect('code' in response ? '/device/approved' : '/device/denied', 303)
  return sendBack(reply, { redirectUri, state }, issuer, response)
}

/** Returns the code of a device in the link to its page. */
function userCodeOf(link: string): string {
  return new URLSearchParams(link.slice(link.indexOf('?'))).get('user_code') ?? ''
}

/** Shows the page again, with the chosen repositories and the search. */
async function askAgain(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  session: Session,
  problem?: string,
): Promise<FastifyReply> {
  const pending = await findOpenRequest(context, request, session)
  const search = readForm(ConsentForm, request).search.slice(0, maxSearchCharacters)
  const question = { id: readForm(ConsentForm, request).request, ...pending }
  const draft = {
    search,
    chosen: readChosen(request).slice(0, maxChosen),
    ...(problem !== undefined && { problem }),
  }
  return await showConsent(context, reply, session, question, draft)
}

/** Returns the request of the form if it can still be decided. Throws a page with the reason if it cannot. */
async function findOpenRequest(
  { db }: AppContext,
  request: FastifyRequest,
  session: Session,
): Promise<AuthorizationRequest> {
  const idHash = hashSecret(readForm(ConsentForm, request).request)
  return refuseClosed(await findAuthorizationRequest(db, idHash), session)
}

/** Returns a request that this account can still decide. Throws a page with the reason for any other. */
function refuseClosed(pending: AuthorizationRequest | null, session: Session): AuthorizationRequest {
  if (!pending) throw new AuthorizationPageError('The request has expired. Start again from the application.')
  if (pending.accountId !== session.account.id) {
    throw new PageError(403, 'This request belongs to another account. Start again from the application.')
  }
  if (pending.isDecided) {
    // After a double click the browser ignores the response to the first click. The page links to the request again.
    throw new AuthorizationPageError('A decision was already made on this request.', pending.link)
  }
  if (!isStillRegistered(pending)) {
    throw new AuthorizationPageError(
      'The application was changed in the meantime. Start again from the application.',
    )
  }
  return pending
}

/**
 * Returns whether the application may still make this request. An operator may have taken a scope, a Redirect URL, its secret
 * or the use of devices away while the page was open.
 */
function isStillRegistered({
  redirectUri,
  scopes,
  resourceScope,
  codeChallenge,
  registered,
}: Pick<
  AuthorizationRequest,
  'redirectUri' | 'scopes' | 'resourceScope' | 'codeChallenge' | 'registered'
>): boolean {
  const mayAsk =
    redirectUri === null
      ? registered.isDevice
      : checkRedirectUri(redirectUri, registered, scopes).refusal === undefined &&
        (codeChallenge !== null || !registered.isPublic)
  return mayAsk && coversAll(registered.scopes, scopes) && registered.resourceScope === resourceScope
}

/** Handles a session that ended while the page was open: after the sign-in the browser returns to the same page. */
async function redirectToSignInAgain(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { request: id } = readForm(ConsentForm, request)
  const pending = await findAuthorizationRequest(context.db, hashSecret(id))
  if (!pending) throw new AuthorizationPageError('The request has expired. Start again from the application.')
  return redirectLinkToSignIn(context, reply, pending.link)
}

function readChosen(request: FastifyRequest): string[] {
  const paths = readForm(ConsentForm, request).repository.filter((path) => /^[^/]+\/[^/]+$/.test(path))
  return [...new Set(paths)]
}

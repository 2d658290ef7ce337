import type { FastifyRequest } from 'fastify'
import type { Session } from '../../accounts/sessions.ts'
import type { Config } from '../../config.ts'
import type { AppContext } from '../../context.ts'
import { anAdministrator } from '../../domain/site.ts'
import { type Application, findApplicationByClientId } from '../../oauth/applications.ts'
import {
  askForReview,
  followDocument,
  isRejectedDocument,
  registerUnreviewed,
} from '../../oauth/client-documents.ts'
import { isDocumentUrl, refuseDocumentUrl } from '../../oauth/client-id.ts'
import type { DocumentReader } from '../../oauth/fetch-document.ts'
import { type ClientDocument, DocumentRefusal } from '../../oauth/read-document.ts'
import { checkRedirectUri } from '../../oauth/redirect-uri.ts'
import { principalOf } from '../principal.ts'
import { AuthorizationPageError, type FindClient, findRegistered } from './authorize-request.ts'

/** The context of the authorization endpoint. */
export interface AuthorizeContext extends AppContext {
  documents: DocumentReader
}

/** Thrown when the document of a client id waits for a review (OPENID 276). It is shown as a page. */
export class DocumentWaits extends Error {
  override readonly name = 'DocumentWaits'
  readonly document: ClientDocument
  /** Whether an earlier text of the document is approved, and only a redirect URI is new. */
  readonly isKnown: boolean

  constructor(document: ClientDocument, isKnown: boolean) {
    super('The client metadata document waits for a review.')
    this.document = document
    this.isKnown = isKnown
  }
}

/** Thrown when the document of a client id must be read, and nobody is signed in (OPENID 278). */
export class SignInFirst extends Error {
  override readonly name = 'SignInFirst'
}

const unknownClient = () => new AuthorizationPageError('client_id is not known here.')
const rejected = () => new AuthorizationPageError('An administrator has rejected this application.')

/**
 * Returns how the client of a request is found. A client id that svc has issued is looked up. For one that is the URL of a client
 * metadata document, the document is read, and decides together with what is stored of it (OPENID 275–280). Without a session
 * only what is stored counts: throws SignInFirst if that is not enough.
 */
export function findClientOf(
  context: AuthorizeContext,
  request: FastifyRequest,
  findSession: () => Promise<Session | null>,
): FindClient {
  const { config, db } = context
  return async (clientId, asked) => {
    if (!isDocumentUrl(clientId)) return findRegistered(db)(clientId, asked)
    if (config.clientDocuments === 'off') throw unknownClient()
    const mistake = refuseDocumentUrl(clientId, config)
    if (mistake !== null) throw new AuthorizationPageError(mistake)
    const application = await findApplicationByClientId(db, clientId)
    if (application && application.status !== 'approved') {
      throw new AuthorizationPageError('The application is not approved at the moment.')
    }
    const isReviewed = application !== null && !application.isUnreviewed
    const isRejected = await isRejectedDocument(db, clientId)
    if (isRejected && !isReviewed) throw rejected()
    const session = await findSession()
    if (session === null) {
      const isEnough =
        application !== null &&
        (isReviewed || config.clientDocuments === 'open') &&
        checkRedirectUri(asked ?? application.redirectUri, application, []).refusal === undefined
      if (!isEnough) throw new SignInFirst()
      return application
    }
    try {
      const document = await context.documents.read(clientId, session.account.id)
      const client =
        application !== null && isReviewed
          ? await narrowToDocument(context, session, { application, document, asked, isRejected })
          : await admitDocument(context, request, session, { application, document })
      if (asked === null && document.redirectUris.length > 1)
        throw new AuthorizationPageError('redirect_uri is missing: the client metadata document has several.')
      return client
    } catch (error) {
      if (error instanceof DocumentRefusal) throw new AuthorizationPageError(error.message)
      throw error
    }
  }
}

interface ReviewedDocument {
  application: Application
  document: ClientDocument
  asked: string | null
  isRejected: boolean
}

/**
 * Returns a reviewed application with those of its redirect URIs that its document still has. New ones wait for a review, in which
 * the others go on working (OPENID 280).
 */
async function narrowToDocument(
  { config, db }: AuthorizeContext,
  session: Session,
  { application, document, asked, isRejected }: ReviewedDocument,
): Promise<Application> {
  const reviewed = application.redirectUris ?? []
  const accepted = document.redirectUris.filter((uri) => reviewed.includes(uri))
  const isChanged = accepted.length < document.redirectUris.length
  const isRoomLeft = !isChanged || isRejected || (await askForReview(db, document, session.account.id))
  const [first] = accepted
  if (
    first === undefined ||
    (asked !== null && document.redirectUris.includes(asked) && !accepted.includes(asked))
  ) {
    if (isRejected) throw rejected()
    if (!isRoomLeft) throw noRoom(config)
    throw new DocumentWaits(document, true)
  }
  return { ...application, redirectUri: first, redirectUris: accepted }
}

/** Returns the application of a document that nobody has reviewed, where the site is open for these. Otherwise it waits. */
async function admitDocument(
  { config, db }: AuthorizeContext,
  request: FastifyRequest,
  session: Session,
  { application, document }: { application: Application | null; document: ClientDocument },
): Promise<Application> {
  const accountId = session.account.id
  if (config.clientDocuments !== 'open') {
    if (!(await askForReview(db, document, accountId))) throw noRoom(config)
    throw new DocumentWaits(document, false)
  }
  const by = principalOf(request, session)
  if (application === null) return registerUnreviewed(db, by, document, accountId)
  const { redirectUris, scopes } = application
  const isSame =
    redirectUris?.join(' ') === document.redirectUris.join(' ') &&
    document.scopes.every((scope) => scopes.includes(scope))
  const followed = isSame ? application : await followDocument(db, by, document)
  // An administrator may have reviewed or deleted it just now.
  if (followed?.status !== 'approved') throw new AuthorizationPageError('Start again from the application.')
  return followed
}

function noRoom({ site }: Pick<Config, 'site'>): AuthorizationPageError {
  return new AuthorizationPageError(
    `Too many applications wait for approval. Ask ${anAdministrator(site)} to decide about them.`,
  )
}

import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../../domain/paging.ts'
import { type DescribedScope, describeScopes } from '../../../domain/scope-descriptions.ts'
import { maxReasonCharacters } from '../../../oauth/application-changes.ts'
import { findApplicationByClientId } from '../../../oauth/applications.ts'
import {
  approveDocument,
  type DocumentState,
  documentStates,
  findClientDocument,
  type ListedDocument,
  listClientDocuments,
  newUrisOf,
  rejectDocument,
} from '../../../oauth/client-documents.ts'
import { describeTarget } from '../../../oauth/redirect-uri.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { PageError } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { type AdminContext, goOn, orProblem } from './administrator.ts'
import { applicationUrl } from './applications.ts'

const documentsPerPage = 50
const url = '/admin/applications/documents'

const DocumentsQuery = z.object({ state: z.enum(documentStates).default('waiting'), after: text })
/** The field has several lines, the reason has one. */
const reasonText = text.transform((reason) => reason.replaceAll(/\s*\n\s*/g, ' ').trim())
const DecisionForm = z.object({ act: z.enum(['approve', 'reject']), reason: reasonText })

/** A document with the hosts that an administrator compares. */
interface ShownDocument extends ListedDocument {
  /** The host of its URL. */
  host: string
  /** Where the browser goes: the hosts of the redirect URIs, without repeats. */
  targets: string[]
}

const documentsPage = page<{
  documents: ShownDocument[]
  state: DocumentState
  isContinued: boolean
  /** The cursor of the next page. Null on the last page. */
  next: string | null
}>('admin/client-documents')

const documentPage = page<{
  document: ShownDocument
  /** The client id of its application, if it has one. */
  clientId: string | null
  newUris: string[]
  scopeGroups: { title: string; scopes: DescribedScope[] }[]
  problem: string | null
}>('admin/client-document')

interface Route {
  Params: { id: string }
}

/**
 * `/admin/applications/documents` lists the client metadata documents that wait for a review. `…/<id>` shows one, and approves or
 * rejects it (OPENID 276, 280).
 */
export async function clientDocumentRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { config, db, byOf, sessionOf } = context

  app.get(url, async (request, reply) => {
    const { state, after } = readQuery(DocumentsQuery, request)
    const { rows, next } = await pageOf(
      (part) => listClientDocuments(db, part, state),
      { after: after || null, limit: documentsPerPage },
      ({ id }) => id,
    )
    const documents = rows.map(show)
    return documentsPage(reply, sessionOf(request), { documents, state, isContinued: after !== '', next })
  })

  app.get<Route>(`${url}/:id`, async (request, reply) => {
    const document = await theDocument(request.params.id)
    return documentPage(reply, sessionOf(request), await describe(document, null))
  })

  app.get<Route>(`${url}/:id/reject`, async (request, reply) => {
    const { id, name } = await theDocument(request.params.id)
    return confirmationPage(reply, sessionOf(request), {
      title: `Reject ${name}?`,
      explanation:
        'Nobody can authorize what the document describes, also after it changes. What was approved before goes on.',
      action: `${url}/${id}`,
      fields: { act: 'reject' },
      button: 'Reject',
      ask: {
        name: 'reason',
        label: 'Reason, shown to administrators',
        maxLength: maxReasonCharacters,
        isOptional: true,
        isLong: true,
      },
      back: `${url}/${id}`,
    })
  })

  app.post<Route>(`${url}/:id`, async (request, reply) => {
    const document = await theDocument(request.params.id)
    const { act, reason } = readForm(DecisionForm, request)
    const by = byOf(request)
    if (act === 'reject') {
      const done = await orProblem(() => rejectDocument(db, by, document.id, reason || null))
      if (done === null) throw decidedMeanwhile()
      if (typeof done !== 'string') return goOn(context, reply, url, `${document.name} is rejected.`)
      return documentPage(reply.code(400), sessionOf(request), await describe(document, done))
    }
    const approved = await orProblem(() => approveDocument(db, config, by, document.id))
    if (approved === null) throw decidedMeanwhile()
    if (typeof approved === 'string')
      return documentPage(reply.code(400), sessionOf(request), await describe(document, approved))
    const { application, migration } = approved
    const isUsable = application.status === 'approved'
    const sentence = `${application.name} is approved. ${isUsable ? 'People can authorize it.' : `The application stays ${application.status}.`}`
    return goOn(context, reply, applicationUrl(application.clientId, migration), sentence)
  })

  async function theDocument(id: string): Promise<ListedDocument> {
    const document = await findClientDocument(db, id)
    if (!document) throw decidedMeanwhile()
    return document
  }

  async function describe(document: ListedDocument, problem: string | null) {
    const application = await findApplicationByClientId(db, document.clientId)
    return {
      document: show(document),
      clientId: application?.clientId ?? null,
      newUris: newUrisOf(document),
      scopeGroups: describeScopes(document.scopes),
      problem,
    }
  }
}

function show(document: ListedDocument): ShownDocument {
  const targets = [...new Set(document.redirectUris.map(describeTarget))]
  return { ...document, host: new URL(document.clientId).host, targets }
}

function decidedMeanwhile(): PageError {
  return new PageError(
    404,
    'There is no such document: it has changed, or was decided about, in the meantime.',
    { next: { url, label: 'All documents that wait' } },
  )
}

import * as z from 'zod'
import { rowId } from '../../domain/row-id.ts'
import { maxReasonCharacters } from '../../oauth/application-changes.ts'
import { describeApplication } from '../../oauth/applications.ts'
import {
  approveDocument,
  describeClientDocument,
  documentStates,
  listClientDocuments,
  rejectDocument,
} from '../../oauth/client-documents.ts'
import { ChangedApplicationBody } from './application-schemas.ts'
import { explained } from './applications.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import { type ApiContext, guardAdministrator } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

const ClientDocument = z
  .object({
    id: z
      .int()
      .meta({ description: 'Id of this text of the document. A changed one has another', example: 3 }),
    client_id: z.string().meta({
      description: 'Its URL, which is the client id of its application',
      example: 'https://app.example.com/client.json',
    }),
    name: z.string().meta({ description: 'The name that it gives', example: 'Helper' }),
    redirect_uris: z.array(z.string()).meta({
      description: 'Where people return to after they decided',
      example: ['https://app.example.com/callback'],
    }),
    new_redirect_uris: z.array(z.string()).meta({
      description: 'Those of them that no review has approved',
      example: ['https://app.example.com/callback'],
    }),
    scopes: z
      .array(z.string())
      .meta({ description: 'The scopes that it may ask for', example: ['registry-package:r'] }),
    state: z.enum(documentStates).meta({ description: 'Whether it waits for a review, or was rejected' }),
    reason: z.string().nullable().meta({ description: 'Why it was rejected', example: 'Nobody uses it' }),
    registered: z.boolean().meta({ description: 'Whether an earlier text of it was approved' }),
    asked_by: z.string().nullable().meta({
      description: 'The username of who has opened its link first. Null after the account was deleted',
      example: 'ann',
    }),
    asked_at: Moment.meta({ description: 'When that was' }),
  })
  .meta({ id: 'ClientDocument' })

const Rejection = z
  .strictObject({
    reason: z.string().max(1000).optional().meta({
      description: 'The reason, for administrators',
      maxLength: maxReasonCharacters,
      example: 'Nobody uses it',
    }),
  })
  .meta({ id: 'ClientDocumentRejection' })

const DocumentsQuery = PageQuery.extend({
  state: z.enum(documentStates).default('waiting').meta({ description: 'Only documents in this state' }),
})
const DocumentPath = z.object({ document: rowId.meta({ description: 'Id of the document', example: '3' }) })

/**
 * The review of client metadata documents, for site administrators: `/api/client-documents` (OPENID 276, 280). The endpoints do the
 * same as `/admin/applications/documents` and `svc client-document`.
 */
export async function clientDocumentEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const mayRead = guardAdministrator('readSite', context)
  const mayManage = guardAdministrator('manageApplications', context)
  const tag = 'Applications'

  app.get(
    '/client-documents',
    endpoint(mayRead, {
      operationId: 'listClientDocuments',
      tag,
      summary: 'List the client metadata documents that wait for a review, the oldest first',
      querystring: DocumentsQuery,
      response: { 200: z.array(ClientDocument) },
    }),
    async (request, reply) =>
      readPage(
        { request, reply, config },
        (part) => listClientDocuments(db, part, request.query.state),
        ({ id }) => id,
        describeClientDocument,
      ),
  )

  app.post(
    '/client-documents/:document/approve',
    endpoint(mayManage, {
      operationId: 'approveClientDocument',
      tag,
      summary:
        'Approve a client metadata document: its application is registered, or gets its new redirect URIs',
      params: DocumentPath,
      response: { 200: ChangedApplicationBody },
    }),
    async (request) => {
      const { by } = mayManage.granted(request)
      const { application, migration } = await explained(
        () => approveDocument(db, config, by, request.params.document),
        'document not found',
      )
      return { ...describeApplication(application), migration }
    },
  )

  app.post(
    '/client-documents/:document/reject',
    endpoint(mayManage, {
      operationId: 'rejectClientDocument',
      tag,
      summary: 'Reject a client metadata document, also for when it changes',
      params: DocumentPath,
      body: Rejection,
      response: { 200: ClientDocument },
    }),
    async (request) => {
      const { by } = mayManage.granted(request)
      const reason = request.body.reason?.trim() || null
      const document = await explained(
        () => rejectDocument(db, by, request.params.document, reason),
        'document not found',
      )
      return describeClientDocument(document)
    },
  )
}

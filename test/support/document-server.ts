import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import type pg from 'pg'
import { afterAll, beforeAll } from 'vitest'
import { makeClientId } from '../../src/domain/secrets.ts'
import { askForReview, type ListedDocument, listClientDocuments } from '../../src/oauth/client-documents.ts'
import type { ClientDocument } from '../../src/oauth/read-document.ts'
import { anAccount } from './actors.ts'

/** The settings of a svc that may read client metadata documents from this machine. */
export const documentsHere = { OUTBOUND_HTTP: 'true', OUTBOUND_PRIVATE_HOSTS: '127.0.0.1' }

/** The members of a document that a test changes. Undefined leaves one out. */
type Members = Record<string, unknown>

/** A server of client metadata documents. */
export interface DocumentServer {
  /** Publishes a document, or replaces it. Returns its URL, which is the client id. */
  publish: (path: string, members?: Members, headers?: Record<string, string>) => string
  /** Sends what the function says. Returns the URL. */
  respond: (path: string, listener: RequestListener) => string
  /** How many requests for a path have arrived. */
  requests: (path: string) => number
}

/** The redirect URI of a document, unless a test says otherwise. */
export const documentRedirect = 'https://app.example.com/callback'

/** Sends a document. */
export function sendDocument(
  response: ServerResponse,
  document: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(document))
}

/** Returns the members of a document at a URL. Its name is that of its path, so that it looks like no other. */
export function documentOf(url: string, members: Members = {}): object {
  const name = `Helper ${new URL(url).pathname.slice(1, 30)}`
  return { client_id: url, client_name: name, redirect_uris: [documentRedirect], ...members }
}

/** A document that waits for a review. */
export async function aWaitingDocument(
  db: pg.Pool,
  differences: Partial<ClientDocument> = {},
): Promise<ListedDocument> {
  const clientId = differences.clientId ?? `https://app.example.com/${makeClientId()}.json`
  const { id: accountId } = await anAccount(db)
  const document = {
    clientId,
    name: 'Helper',
    redirectUris: [documentRedirect],
    scopes: ['account-profile:r'],
    ...differences,
  }
  await askForReview(db, document, accountId)
  const documents = await listClientDocuments(db, { after: null, limit: 1000 })
  return documents.find((one) => one.clientId === clientId) as ListedDocument
}

/**
 * Runs a server of documents for one test file. On a slow machine, a document can take longer than the second that svc has for
 * it, so give the app `patientBounds`.
 */
export function useDocumentServer(): DocumentServer {
  const listeners = new Map<string, RequestListener>()
  const seen: string[] = []
  const server = createServer((request: IncomingMessage, response: ServerResponse) => {
    const path = (request.url ?? '').slice(1)
    seen.push(path)
    const listener = listeners.get(path)
    if (listener) listener(request, response)
    else response.writeHead(404).end()
  })
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  })
  afterAll(async () => {
    server.closeAllConnections()
    await promisify(server.close.bind(server))()
  })
  const urlOf = (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}/${path}`
  return {
    publish(path, members = {}, headers = {}) {
      const url = urlOf(path)
      listeners.set(path, (_request, response) => sendDocument(response, documentOf(url, members), headers))
      return url
    },
    respond(path, listener) {
      listeners.set(path, listener)
      return urlOf(path)
    },
    requests: (path) => seen.filter((one) => one === path).length,
  }
}

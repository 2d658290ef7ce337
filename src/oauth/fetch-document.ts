import { LRUCache } from 'lru-cache'
import type { Config } from '../config.ts'
import type { Queryable } from '../database/database.ts'
import { countAttempt } from '../database/failure-limit.ts'
import { singleFlight } from '../domain/single-flight.ts'
import { openTurns } from '../domain/turns.ts'
import { kinds } from '../outbound/kinds.ts'
import { headerOf, type Outbound } from '../outbound/outbound.ts'
import { OutboundError } from '../outbound/outbound-error.ts'
import { type ClientDocument, DocumentRefusal, readClientDocument } from './read-document.ts'

/** How many documents a process remembers. */
const maxDocuments = 1000
/** How long a document is used before it is read again, in seconds. */
const shortestUse = 300
const longestUse = 86_400
/** How often documents of one origin are requested in a minute, and on behalf of one account. */
const requestsPerOrigin = 30
const requestsPerAccount = 60
const windowSeconds = 60

/** Reads client metadata documents. */
export interface DocumentReader {
  /**
   * Returns the document of a URL that `refuseDocumentUrl` accepts, on behalf of an account that is signed in. Throws
   * `DocumentRefusal` if it cannot be read, breaks a rule, or is requested too often.
   */
  read: (url: string, accountId: string) => Promise<ClientDocument>
}

/**
 * Opens the reader (OPENID 278). Good documents stay in memory for as long as their Cache-Control says, within bounds. Errors do
 * not: the author corrects the document and tries again. Concurrent requests for a document share one fetch.
 */
export function openDocumentReader(
  db: Queryable,
  config: Pick<Config, 'baseUrl' | 'site'>,
  outbound: Pick<Outbound, 'fetchBytes'>,
): DocumentReader {
  const known = new LRUCache<string, ClientDocument>({ max: maxDocuments })
  const flights = singleFlight<ClientDocument>()
  // A turn is waited for as long as a document may take.
  const waitingSeconds = kinds.clientDocument.milliseconds / 1000
  const inTurn = openTurns(
    { atOnce: 16, atOnceOfOwner: 4, waiting: 64, waitingOfOwner: 12, waitingSeconds },
    () => new DocumentRefusal('Too many client metadata documents are being read. Try again in a moment.'),
  )

  async function countRequest(origin: string, accountId: string): Promise<void> {
    // The account comes first: one that is over its limit uses up nothing of the origin's.
    const blockedSeconds = await countAttempt(db, [
      {
        subject: `client documents for account ${accountId}`,
        attempts: requestsPerAccount,
        windowSeconds,
      },
      { subject: `client documents of ${origin}`, attempts: requestsPerOrigin, windowSeconds },
    ])
    if (blockedSeconds === 0) return
    throw new DocumentRefusal(
      `Too many client metadata documents of ${new URL(origin).host} were requested. Try again in ${blockedSeconds} seconds.`,
    )
  }

  async function fetchDocument(url: string): Promise<ClientDocument> {
    const { status, headers, bytes, isPrivate } = await outbound
      .fetchBytes('clientDocument', url, {
        rights: { reachesPrivateHosts: true },
        headers: { accept: 'application/json' },
      })
      .catch((error: unknown) => {
        throw refusalOf(error)
      })
    const type = headerOf({ headers }, 'content-type') ?? ''
    const isJson = /^application\/(?:[\w.!#$&^-]+\+)?json[ \t]*(?:;|$)/i.test(type)
    if (status !== 200 || !isJson) throw unreadable()
    const document = readHiding(bytes, url, isPrivate)
    const seconds = secondsOfUse(headerOf({ headers }, 'cache-control') ?? '')
    known.set(url, document, { ttl: seconds * 1000 })
    return document
  }

  /** Reads a document. Says nothing about the bytes if they come from a private host. */
  function readHiding(bytes: Buffer, url: string, isPrivate: boolean): ClientDocument {
    try {
      return readClientDocument(bytes, url, config)
    } catch (error) {
      if (!isPrivate || !(error instanceof DocumentRefusal)) throw error
      throw new DocumentRefusal('The client metadata document breaks a rule.')
    }
  }

  return {
    async read(url, accountId) {
      const found = known.get(url) ?? (await flights.running(url))
      if (found) return found
      const { origin } = new URL(url)
      await countRequest(origin, accountId)
      return known.get(url) ?? (await flights.share(url, () => inTurn(origin, () => fetchDocument(url))))
    },
  }
}

/** Returns for how many seconds a document with this Cache-Control is used: its `max-age`, within the bounds. */
export function secondsOfUse(cacheControl: string): number {
  const [, given] = /(?:^|[,\s])max-age="?(\d{1,10})/i.exec(cacheControl) ?? []
  const isKept = !/(?:^|[,\s])no-(?:store|cache)/i.test(cacheControl)
  return isKept ? Math.min(longestUse, Math.max(shortestUse, Number(given ?? 0))) : shortestUse
}

/** One text for all failures of a request: what differs would tell everybody what listens on a private host. */
function unreadable(): DocumentRefusal {
  return new DocumentRefusal(
    'The client metadata document cannot be read. Its URL must respond within 1 second with status 200 and at most 5 kB of application/json, without redirects.',
  )
}

/** Returns the refusal for a failed request. Another error is a bug. */
function refusalOf(error: unknown): unknown {
  if (!(error instanceof OutboundError)) return error
  const isGuarded = error.failure === 'private' || error.failure === 'insecure'
  return isGuarded
    ? new DocumentRefusal(`The client metadata document cannot be read: ${error.message}.`)
    : unreadable()
}

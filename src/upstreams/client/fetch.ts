import type { Readable } from 'node:stream'
import type { Config } from '../../config.ts'
import { limitConcurrency } from '../../domain/time-slices.ts'
import { acceptedCodings } from '../../outbound/decode.ts'
import type { RequestKind } from '../../outbound/kinds.ts'
import { headerOf, type Outbound, type OutboundRights, openOutbound } from '../../outbound/outbound.ts'
import { type AuthFileEvents, openAuthFile } from './auth-file.ts'
import { lastModifiedOf, nextOf, refused, useBody } from './response.ts'
import { toUpstreamError } from './upstream-error.ts'

const documentMilliseconds = 30_000
/** A longer body that nobody reads is not received, but its connection is closed. */
const maxDumpedBytes = 64 * 1024

/** How many large documents a process has in memory at once. */
const maxLargeDocuments = 8

/**
 * A response to a request for a document. `content` is what the caller has made of its bytes. `next` is the link to the
 * next part as sent: `Link` with `rel="next"` (RFC 8288). It can be relative, invalid, or of another origin. It is null
 * when there is no next part.
 */
export type FetchedDocument<T> =
  | { kind: 'found'; content: T; lastModified: string | null; next: string | null }
  | { kind: 'unchanged' }
  | { kind: 'missing' }

/** Sends requests to an upstream, through the client of `openOutbound`. */
export interface UpstreamRequests {
  /**
   * Sends GET or POST for a JSON document, and gives its bytes to `use`. A large document is in memory only until `use`
   * returns. Throws `UpstreamError` for statuses other than 200, 304, 404 and 410, and the error of `use`.
   */
  fetchDocument: <T>(
    url: string,
    use: (bytes: Buffer, about: { lastModified: string | null }) => Promise<T>,
    options?: DocumentOptions,
  ) => Promise<FetchedDocument<T>>
  /** Sends GET for an archive. Throws `UpstreamError` unless the status is 200. The caller reads or destroys the body. */
  fetchArchive: (url: string) => Promise<{ body: Readable; size: number | null }>
}

/** What requests for an upstream may do. Only operators decide this. */
export interface UpstreamRights extends OutboundRights {
  url: string
  /** Whether they have the credentials of UPSTREAM_AUTH_FILE, on the host of the URL and on `credentialHosts`. */
  usesCredentials: boolean
  /** Other hosts, or host:port, that get credentials. A document can name any URL, also one of another upstream. */
  credentialHosts: readonly string[]
}

/** The connections of a process to other Composer repositories. */
export interface UpstreamClient {
  /**
   * Returns the requests for an upstream, or for the registry of an import. They have the credentials of UPSTREAM_AUTH_FILE
   * only if the operator allows that for this upstream. Otherwise every admin of a group could read what the operator can
   * read.
   */
  for: (upstream: UpstreamRights, kind?: RequestKind & ('upstream' | 'import')) => UpstreamRequests
  /** Closes the client for requests. Requests that fail from now on throw `ClosedClientError`. */
  close: () => Promise<void>
}

export interface DocumentOptions {
  /** The Last-Modified of the caller's copy. */
  lastModified?: string | null
  /** The body of a form. The request is then a POST. */
  form?: string
  milliseconds?: number
  /** Whether the body of a 400 is returned too. A change feed sends the first timestamp with status 400. */
  takesBadRequest?: boolean
}

/**
 * Opens the client for upstreams with the settings of the environment. Throws when UPSTREAM_AUTH_FILE cannot be read.
 * `authFileEvents` reports what happens to that file. The requests go through `outbound`.
 */
export function openUpstreamClient(
  config: Pick<Config, 'baseUrl' | 'outbound' | 'upstreams'>,
  authFileEvents: AuthFileEvents = {},
  outbound: Outbound = openOutbound(config),
): UpstreamClient {
  const { baseUrl, upstreams } = config
  const authorize = openAuthFile(upstreams.authFile, authFileEvents)
  const userAgent = `svc (+${baseUrl}; mailto=${upstreams.contact ?? 'unset'})`
  const inMemory = limitConcurrency(maxLargeDocuments)

  const open = (rights: UpstreamRights, kind: RequestKind): UpstreamRequests => {
    // Choose credentials by the host of each redirect. They come from UPSTREAM_AUTH_FILE only.
    const headersFor = (url: URL) => (mayAuthorize(rights, url) ? authorize(url) : {})
    const common = { 'user-agent': userAgent }
    return {
      async fetchDocument(
        url,
        use,
        { lastModified = null, form, milliseconds = documentMilliseconds, takesBadRequest = false } = {},
      ) {
        const options = {
          rights,
          headersFor,
          milliseconds,
          ...(form !== undefined && { method: 'POST', body: form }),
          headers: {
            ...common,
            accept: 'application/json',
            'accept-encoding': acceptedCodings,
            ...(lastModified !== null && { 'if-modified-since': lastModified }),
            ...(form !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
          },
        }
        const request = outbound.request(kind, url, options, async (response) => {
          const { status, body } = response
          if (status === 200 || (status === 400 && takesBadRequest)) {
            const about = { lastModified: lastModifiedOf(response), next: nextOf(response) }
            // The error of `use` is no error of the network.
            const used = await useBody(response, inMemory, async (bytes) => {
              const [result] = await Promise.allSettled([use(bytes, about)])
              return result
            })
            return { kind: 'found' as const, used, ...about }
          }
          await body.dump({ limit: maxDumpedBytes })
          // A response to a request without a condition must not be 304: nothing would be stored.
          if (status === 304 && lastModified !== null) return { kind: 'unchanged' as const }
          if (status === 404 || status === 410) return { kind: 'missing' as const }
          throw refused(url, response)
        })
        const found = await explain(url, request)
        if (found.kind !== 'found') return found
        const { used, ...about } = found
        if (used.status === 'rejected') throw used.reason
        return { ...about, content: used.value }
      },

      async fetchArchive(url) {
        const options = { rights, headersFor, headers: { ...common, accept: '*/*' } }
        const response = await explain(url, outbound.stream(kind, url, options))
        if (response.status !== 200) {
          await response.body.dump({ limit: maxDumpedBytes })
          throw refused(url, response)
        }
        const length = Number(headerOf(response, 'content-length') ?? Number.NaN)
        return { body: response.body, size: Number.isSafeInteger(length) ? length : null }
      },
    }
  }

  return { for: (rights, kind = 'upstream') => open(rights, kind), close: outbound.close }
}

/** Returns the result of a request. Throws its error as an `UpstreamError`. */
async function explain<T>(url: string, request: Promise<T>): Promise<T> {
  try {
    return await request
  } catch (error) {
    throw toUpstreamError(error, url)
  }
}

function mayAuthorize(
  { url, usesCredentials, credentialHosts }: UpstreamRights,
  { host, protocol }: URL,
): boolean {
  const own = new URL(url)
  // A document or a redirect must not bring the credentials of an https URL onto the network in plain text.
  const isSafe = protocol === 'https:' || own.protocol === 'http:'
  return usesCredentials && isSafe && (own.host === host || credentialHosts.includes(host))
}

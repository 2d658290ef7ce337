import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Agent, type Dispatcher, request } from 'undici'
import type { Config } from '../../config.ts'
import { limitConcurrency } from '../../domain/time-slices.ts'
import { type AuthFileEvents, openAuthFile } from './auth-file.ts'
import { openPublicAgent } from './public-hosts.ts'
import { headerOf, lastModifiedOf, nextOf, refused, useBody } from './response.ts'
import { ClosedClientError, toUpstreamError, UpstreamError } from './upstream-error.ts'

const maxRedirects = 5
const documentMilliseconds = 30_000
const archiveMilliseconds = 10 * 60_000
const closeMilliseconds = 3_000

/** How many large documents a process has in memory at once. */
const maxLargeDocuments = 8

/**
 * A response to a request for a document. `content` is what the caller has made of its bytes. `next` is the link to the next part as sent: `Link` with `rel="next"`
 * (RFC 8288). It can be relative, invalid, or of another origin. It is null when there is no next part.
 */
export type FetchedDocument<T> =
  | { kind: 'found'; content: T; lastModified: string | null; next: string | null }
  | { kind: 'unchanged' }
  | { kind: 'missing' }

/** Sends requests to an upstream. Connects to public hosts only (see `openPublicAgent`). */
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
export interface UpstreamRights {
  url: string
  /** Whether they have the credentials of UPSTREAM_AUTH_FILE, on the host of the URL and on `credentialHosts`. */
  usesCredentials: boolean
  /** Other hosts, or host:port, that get credentials. A document can name any URL, also one of another upstream. */
  credentialHosts: readonly string[]
  /** Whether they may connect to the hosts of OUTBOUND_PRIVATE_HOSTS. */
  reachesPrivateHosts: boolean
}

/** The connections of a process to other Composer repositories. */
export interface UpstreamClient {
  /**
   * Returns the requests for an upstream. They have the credentials of UPSTREAM_AUTH_FILE, and reach the private hosts of
   * OUTBOUND_PRIVATE_HOSTS, only if the operator allows that for this upstream. Otherwise every admin of a group could
   * read what the operator can read.
   */
  for: (upstream: UpstreamRights) => UpstreamRequests
  /**
   * Closes the connections, and aborts requests that still run after 3 s. Requests that fail from now on throw
   * `ClosedClientError`.
   */
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
 * `authFileEvents` reports what happens to that file.
 */
export function openUpstreamClient(
  { baseUrl, upstreams }: Pick<Config, 'baseUrl' | 'upstreams'>,
  authFileEvents: AuthFileEvents = {},
): UpstreamClient {
  const authorize = openAuthFile(upstreams.authFile, authFileEvents)
  const agents: { private: Agent; public: Agent } = {
    private: openPublicAgent(upstreams.privateHosts),
    public: openPublicAgent([]),
  }
  const userAgent = `svc (+${baseUrl}; mailto=${upstreams.contact ?? 'unset'})`

  const inMemory = limitConcurrency(maxLargeDocuments)

  /** The requests that run, until the ends of their bodies. */
  const running = new Set<Promise<unknown>>()
  let closing: Promise<void> | undefined

  function track(request: Promise<unknown>): void {
    const ended = request.catch(() => {}).finally(() => running.delete(ended))
    running.add(ended)
  }

  async function send(first: string, options: SendOptions): Promise<Dispatcher.ResponseData> {
    let url = readUrl(first)
    for (let hop = 0; hop <= maxRedirects; hop += 1) {
      if (url.protocol !== 'https:' && !upstreams.allowHttp) {
        throw new UpstreamError(`${url.origin} is not https: set OUTBOUND_HTTP=true to allow http`)
      }
      // Choose credentials by the host of each redirect, so that no other host gets them. They come from UPSTREAM_AUTH_FILE
      // only: undici ignores those in a URL.
      const credentials = mayAuthorize(options.rights, url) ? authorize(url) : {}
      const response = await request(url, {
        dispatcher: options.rights.reachesPrivateHosts ? agents.private : agents.public,
        method: options.form === undefined ? 'GET' : 'POST',
        headers: {
          'user-agent': userAgent,
          ...options.headers,
          ...credentials,
        },
        body: options.form ?? null,
        signal: options.signal,
      })
      const location = headerOf(response, 'location')
      if (![301, 302, 303, 307, 308].includes(response.statusCode) || location === null) return response
      await response.body.dump({ limit: 64 * 1024 })
      url = readUrl(location, url)
    }
    throw new UpstreamError(`${new URL(first).origin} redirects more than ${maxRedirects} times`)
  }

  /** Runs a request, and converts network errors to an `UpstreamError` with a readable message. */
  async function explain<T>(url: string, work: () => Promise<T>): Promise<T> {
    if (closing) throw new ClosedClientError()
    const result = work()
    track(result)
    try {
      return await result
    } catch (error) {
      throw closing ? new ClosedClientError() : toUpstreamError(error, url)
    }
  }

  const open = (rights: UpstreamRights): UpstreamRequests => ({
    async fetchDocument(
      url,
      use,
      { lastModified = null, form, milliseconds = documentMilliseconds, takesBadRequest = false } = {},
    ) {
      const signal = AbortSignal.timeout(milliseconds)
      const found = await explain(url, async () => {
        const response = await send(url, {
          signal,
          rights,
          ...(form !== undefined && { form }),
          headers: {
            accept: 'application/json',
            'accept-encoding': 'gzip, br',
            ...(lastModified !== null && { 'if-modified-since': lastModified }),
            ...(form !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
          },
        })
        const { statusCode } = response
        if (statusCode === 200 || (statusCode === 400 && takesBadRequest)) {
          const about = { lastModified: lastModifiedOf(response), next: nextOf(response) }
          // The error of `use` is no error of the network.
          const used = await useBody(response, inMemory, async (bytes) => {
            const [result] = await Promise.allSettled([use(bytes, about)])
            return result
          })
          return { kind: 'found' as const, used, ...about }
        }
        await response.body.dump({ limit: 64 * 1024 })
        // A response to a request without a condition must not be 304: nothing would be stored.
        if (statusCode === 304 && lastModified !== null) return { kind: 'unchanged' as const }
        if (statusCode === 404 || statusCode === 410) return { kind: 'missing' as const }
        throw refused(url, response)
      })
      if (found.kind !== 'found') return found
      const { used, ...about } = found
      if (used.status === 'rejected') throw used.reason
      return { ...about, content: used.value }
    },

    async fetchArchive(url) {
      const signal = AbortSignal.timeout(archiveMilliseconds)
      return explain(url, async () => {
        const response = await send(url, { signal, rights, headers: { accept: '*/*' } })
        if (response.statusCode !== 200) {
          await response.body.dump({ limit: 64 * 1024 })
          throw refused(url, response)
        }
        track(once(response.body, 'close'))
        const length = Number(headerOf(response, 'content-length') ?? Number.NaN)
        return { body: response.body, size: Number.isSafeInteger(length) ? length : null }
      })
    },
  })

  return {
    for: open,

    async close() {
      // Not `agent.close()`: it forgets its connections, and `destroy` then aborts nothing.
      closing ??= Promise.race([Promise.all(running), sleep(closeMilliseconds, null, { ref: false })]).then(
        () => Promise.all([agents.private.destroy(), agents.public.destroy()]).then(() => {}),
      )
      await closing
    },
  }
}

interface SendOptions {
  headers: Record<string, string>
  form?: string
  signal: AbortSignal
  rights: UpstreamRights
}

function mayAuthorize({ url, usesCredentials, credentialHosts }: UpstreamRights, { host }: URL): boolean {
  return usesCredentials && (new URL(url).host === host || credentialHosts.includes(host))
}

function readUrl(text: string, base?: URL): URL {
  const url = URL.canParse(text, base?.href) ? new URL(text, base) : null
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UpstreamError('a URL of the upstream is not http or https')
  return url
}

import { once } from 'node:events'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, gunzipSync } from 'node:zlib'
import { type Agent, type Dispatcher, request } from 'undici'
import type { Config } from '../../../config.ts'
import { cleanLine } from '../../../domain/plain-text.ts'
import { type AuthFileEvents, openAuthFile } from './auth-file.ts'
import { openPublicAgent, PrivateHostError } from './public-hosts.ts'

const maxRedirects = 5
/** The maximum size of a decompressed document. The largest document of Packagist has about 30 MB. */
const maxDocumentBytes = 64 * 1024 * 1024
const maxOutput = { maxOutputLength: maxDocumentBytes }
/**
 * The maximum number of values in a document. An empty object has two bytes, but JSON.parse needs a hundred bytes and a
 * microsecond for it.
 */
const maxValues = 5_000_000
/** A document of this size cannot have too many values. */
const smallDocumentBytes = 1024 * 1024
/** Up to this size, a body is decompressed on the main thread. */
const smallGzipBytes = 16 * 1024
const documentMilliseconds = 30_000
const [comma, brace, bracket] = [0x2c, 0x7b, 0x5b]
const archiveMilliseconds = 10 * 60_000
const closeMilliseconds = 3_000

/** A failed request to an upstream, with the reason. The message contains no credentials. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError'
  /** The HTTP status of the response. Null when there was no response. */
  readonly status: number | null
  /** The seconds of the Retry-After header. Null when there was none. */
  readonly retryAfter: number | null

  constructor(message: string, about: { status?: number; retryAfter?: number | null } = {}) {
    // Parts of the message come from upstreams. It is stored, logged and shown in terminals.
    super(cleanLine(message.slice(0, 1000)))
    this.status = about.status ?? null
    this.retryAfter = about.retryAfter ?? null
  }
}

/**
 * A request that the close of the client has ended, or prevented. It says nothing about the upstream, so do not store
 * it as a failure.
 */
export class ClosedClientError extends UpstreamError {
  constructor() {
    super('the process stops')
  }
}

/**
 * A response to a request for a document. `next` is the link to the next part as sent: `Link` with `rel="next"`
 * (RFC 8288). It can be relative, invalid, or of another origin. It is null when there is no next part.
 */
export type FetchedDocument =
  | { kind: 'found'; text: string; lastModified: string | null; next: string | null }
  | { kind: 'unchanged' }
  | { kind: 'missing' }

/** Sends requests to other Composer repositories. Connects to public hosts only (see `openPublicAgent`). */
export interface UpstreamClient {
  /** Sends GET or POST for a JSON document. Throws `UpstreamError` for statuses other than 200, 304, 404 and 410. */
  fetchDocument: (url: string, options?: DocumentOptions) => Promise<FetchedDocument>
  /** Sends GET for an archive. Throws `UpstreamError` unless the status is 200. The caller reads or destroys the body. */
  fetchArchive: (url: string) => Promise<{ body: Readable; size: number | null }>
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
  const agent: Agent = openPublicAgent(upstreams.privateHosts)
  const userAgent = `svc (+${baseUrl}; mailto=${upstreams.contact ?? 'unset'})`

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
        throw new UpstreamError(`${url.origin} is not https: set UPSTREAM_HTTP=true to allow http`)
      }
      // Choose credentials by the host of each redirect, so that no other host gets them.
      const credentials = authorize(url)
      const response = await request(url, {
        dispatcher: agent,
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

  return {
    async fetchDocument(
      url,
      { lastModified = null, form, milliseconds = documentMilliseconds, takesBadRequest = false } = {},
    ) {
      const signal = AbortSignal.timeout(milliseconds)
      return explain(url, async () => {
        const response = await send(url, {
          signal,
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
          return {
            kind: 'found',
            text: await readText(response),
            lastModified: lastModifiedOf(response),
            next: nextOf(response),
          }
        }
        await response.body.dump({ limit: 64 * 1024 })
        // A response to a request without a condition must not be 304: nothing would be stored.
        if (statusCode === 304 && lastModified !== null) return { kind: 'unchanged' }
        if (statusCode === 404 || statusCode === 410) return { kind: 'missing' }
        throw refused(url, response)
      })
    },

    async fetchArchive(url) {
      const signal = AbortSignal.timeout(archiveMilliseconds)
      return explain(url, async () => {
        const response = await send(url, { signal, headers: { accept: '*/*' } })
        if (response.statusCode !== 200) {
          await response.body.dump({ limit: 64 * 1024 })
          throw refused(url, response)
        }
        track(once(response.body, 'close'))
        const length = Number(headerOf(response, 'content-length') ?? Number.NaN)
        return { body: response.body, size: Number.isSafeInteger(length) ? length : null }
      })
    },

    async close() {
      // Not `agent.close()`: it forgets its connections, and `destroy` then aborts nothing.
      closing ??= Promise.race([Promise.all(running), sleep(closeMilliseconds, null, { ref: false })]).then(
        () => agent.destroy(),
      )
      await closing
    },
  }
}

interface SendOptions {
  headers: Record<string, string>
  form?: string
  signal: AbortSignal
}

function readUrl(text: string, base?: URL): URL {
  const url = URL.canParse(text, base?.href) ? new URL(text, base) : null
  if (!url || !/^https?:$/.test(url.protocol))
    throw new UpstreamError('a URL of the upstream is not http or https')
  // Credentials come from UPSTREAM_AUTH_FILE only.
  url.username = ''
  url.password = ''
  return url
}

/**
 * Returns the body as text. `maxDocumentBytes` also limits the decompressed text, because a small body can be a zip
 * bomb.
 */
async function readText(response: Dispatcher.ResponseData): Promise<string> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of response.body as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxDocumentBytes) throw tooLarge()
      chunks.push(chunk)
    }
  } finally {
    response.body.destroy()
  }
  const bytes = await decode(Buffer.concat(chunks), headerOf(response, 'content-encoding'))
  refuseManyValues(bytes)
  return bytes.toString()
}

/** Throws for a document with too many values. Each value follows a bracket or a comma. */
function refuseManyValues(bytes: Buffer): void {
  if (bytes.length <= smallDocumentBytes) return
  let values = 0
  for (const byte of bytes) if (byte === comma || byte === brace || byte === bracket) values += 1
  if (values > maxValues) throw new UpstreamError(`a document has more than ${maxValues} values`)
}

async function decode(bytes: Buffer, coding: string | null): Promise<Buffer> {
  try {
    if (coding === 'gzip') return gunzipSmall(bytes) ?? (await promisify(gunzip)(bytes, maxOutput))
    if (coding === 'br') return await promisify(brotliDecompress)(bytes, maxOutput)
    return bytes
  } catch (error) {
    throw isTooLarge(error) ? tooLarge() : error
  }
}

/**
 * Decompresses a small document on the main thread. For a usual document, the thread pool would take six times as long.
 * Null when the document is larger.
 */
function gunzipSmall(bytes: Buffer): Buffer | null {
  if (bytes.length > smallGzipBytes) return null
  try {
    return gunzipSync(bytes, { maxOutputLength: 16 * smallGzipBytes })
  } catch (error) {
    if (isTooLarge(error)) return null
    throw error
  }
}

function isTooLarge(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'
}

function tooLarge(): UpstreamError {
  return new UpstreamError(`a document has more than ${maxDocumentBytes} bytes`)
}

function headerOf(response: Dispatcher.ResponseData, name: string): string | null {
  return [response.headers[name]].flat()[0] ?? null
}

/** Returns the Last-Modified header. Null for a text that could not be sent back in a request. */
function lastModifiedOf(response: Dispatcher.ResponseData): string | null {
  const text = headerOf(response, 'last-modified')
  return text !== null && /^[\x20-\x7e]{1,100}$/.test(text) ? text : null
}

/** Returns the first link with `rel="next"`, as sent. */
function nextOf(response: Dispatcher.ResponseData): string | null {
  const header = [response.headers['link'] ?? []].flat().join(', ')
  for (const [, target = '', params = ''] of header.matchAll(/<([^<>]*)>([^<]*)/g)) {
    const [, quoted, bare] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s",;]+))/i.exec(params) ?? []
    const relations = (quoted ?? bare ?? '').toLowerCase().split(/\s+/)
    if (relations.includes('next')) return target
  }
  return null
}

function refused(url: string, response: Dispatcher.ResponseData): UpstreamError {
  const after = headerOf(response, 'retry-after') ?? ''
  const retryAfter = /^\d{1,6}$/.test(after) ? Number(after) : null
  const { statusCode: status } = response
  return new UpstreamError(`${new URL(url).host} responded with status ${status}`, { status, retryAfter })
}

/** Converts a network error to an `UpstreamError` with a readable message. */
export function toUpstreamError(error: unknown, url: string): UpstreamError {
  if (error instanceof UpstreamError) return error
  const host = URL.canParse(url) ? new URL(url).host : 'the upstream'
  const cause = error instanceof Error && error.cause instanceof PrivateHostError ? error.cause : error
  if (cause instanceof PrivateHostError) return new UpstreamError(cause.message)
  const { name = '', code = '' } = (error ?? {}) as { name?: string; code?: string }
  if (name === 'TimeoutError' || /TIMEOUT/.test(code))
    return new UpstreamError(`${host} did not respond in time`)
  if (/^Z_|^ERR__?ERROR|^ERR_/.test(code))
    return new UpstreamError(`${host} sent a body that cannot be decoded`)
  return new UpstreamError(`${host} cannot be reached${code ? ` (${code})` : ''}`)
}

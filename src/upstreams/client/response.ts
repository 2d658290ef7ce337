import { gunzipSync } from 'node:zlib'
import { decode } from '../../outbound/decode.ts'
import { describeStatus, headerOf, type OutboundResponse } from '../../outbound/outbound.ts'
import { UpstreamError } from './upstream-error.ts'

/** The maximum size of a decompressed document. A small body can be a zip bomb. */
const maxDocumentBytes = 16 * 1024 * 1024
/** Up to this size, a document needs no place in memory. */
const smallBodyBytes = 256 * 1024
/** Up to this size, a body is decompressed on the main thread. */
const smallGzipBytes = 16 * 1024

/** Runs a task when there is a place for its document in memory. */
export type InMemory = <T>(task: () => Promise<T>) => Promise<T>

/**
 * Reads the body of a document, and returns what `use` makes of its bytes. A large document has a place in memory from
 * then on until `use` returns, because many of them at once would need gigabytes.
 */
export async function useBody<T>(
  response: OutboundResponse,
  inMemory: InMemory,
  use: (bytes: Buffer) => Promise<T>,
): Promise<T> {
  const body = (response.body as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  const coding = headerOf(response, 'content-encoding')
  const chunks: Buffer[] = []
  let size = 0

  /** Reads the body up to a size. Returns whether that is all of it. */
  async function readUpTo(limit: number): Promise<boolean> {
    while (size <= limit) {
      const { done, value } = await body.next()
      if (done) return true
      chunks.push(value)
      size += value.length
    }
    return false
  }

  try {
    const isSmall = await readUpTo(smallBodyBytes)
    const decoded = isSmall ? decodeSmall(Buffer.concat(chunks), coding) : null
    if (decoded) return await use(decoded)
    return await inMemory(async () => {
      if (!isSmall && !(await readUpTo(maxDocumentBytes))) throw tooLarge()
      return use(await decodeLarge(Buffer.concat(chunks.splice(0)), coding))
    })
  } finally {
    response.body.destroy()
  }
}

async function decodeLarge(bytes: Buffer, coding: string | null): Promise<Buffer> {
  try {
    return await decode(bytes, coding, maxDocumentBytes)
  } catch (error) {
    throw isTooLarge(error) ? tooLarge() : error
  }
}

/**
 * Decompresses a small document on the main thread. For a usual document, the thread pool would take six times as long.
 * Null when the document is larger.
 */
function decodeSmall(bytes: Buffer, coding: string | null): Buffer | null {
  if (coding !== 'gzip' && coding !== 'br') return bytes
  if (coding === 'br' || bytes.length > smallGzipBytes) return null
  try {
    return gunzipSync(bytes, { maxOutputLength: smallBodyBytes })
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

/** Returns the Last-Modified header. Null for a text that could not be sent back in a request. */
export function lastModifiedOf(response: OutboundResponse): string | null {
  const text = headerOf(response, 'last-modified')
  return text !== null && /^[\x20-\x7e]{1,100}$/.test(text) ? text : null
}

/** Returns the first link with `rel="next"`, as sent. */
export function nextOf(response: OutboundResponse): string | null {
  const header = [response.headers['link'] ?? []].flat().join(', ')
  for (const [, target = '', params = ''] of header.matchAll(/<([^<>]*)>([^<]*)/g)) {
    const [, quoted, bare] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s",;]+))/i.exec(params) ?? []
    const relations = (quoted ?? bare ?? '').toLowerCase().split(/\s+/)
    if (relations.includes('next')) return target
  }
  return null
}

/** Returns the error for a status that is no success. */
export function refused(url: string, response: OutboundResponse): UpstreamError {
  const after = headerOf(response, 'retry-after') ?? ''
  const retryAfter = /^\d{1,6}$/.test(after) ? Number(after) : null
  const { status } = response
  return new UpstreamError(describeStatus(url, response), { status, retryAfter })
}

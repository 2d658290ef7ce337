import { promisify } from 'node:util'
import { brotliDecompress, gunzip, gunzipSync } from 'node:zlib'
import type { Dispatcher } from 'undici'
import { UpstreamError } from './upstream-error.ts'

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
const [comma, brace, bracket] = [0x2c, 0x7b, 0x5b]

/**
 * Returns the body as text. `maxDocumentBytes` also limits the decompressed text, because a small body can be a zip
 * bomb.
 */
export async function readBody(response: Dispatcher.ResponseData): Promise<string> {
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

/** Returns the first value of a header. Null when it is missing. */
export function headerOf(response: Dispatcher.ResponseData, name: string): string | null {
  return [response.headers[name]].flat()[0] ?? null
}

/** Returns the Last-Modified header. Null for a text that could not be sent back in a request. */
export function lastModifiedOf(response: Dispatcher.ResponseData): string | null {
  const text = headerOf(response, 'last-modified')
  return text !== null && /^[\x20-\x7e]{1,100}$/.test(text) ? text : null
}

/** Returns the first link with `rel="next"`, as sent. */
export function nextOf(response: Dispatcher.ResponseData): string | null {
  const header = [response.headers['link'] ?? []].flat().join(', ')
  for (const [, target = '', params = ''] of header.matchAll(/<([^<>]*)>([^<]*)/g)) {
    const [, quoted, bare] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^\s",;]+))/i.exec(params) ?? []
    const relations = (quoted ?? bare ?? '').toLowerCase().split(/\s+/)
    if (relations.includes('next')) return target
  }
  return null
}

/** Returns the error for a status that is no success. */
export function refused(url: string, response: Dispatcher.ResponseData): UpstreamError {
  const after = headerOf(response, 'retry-after') ?? ''
  const retryAfter = /^\d{1,6}$/.test(after) ? Number(after) : null
  const { statusCode: status } = response
  return new UpstreamError(`${new URL(url).host} responded with status ${status}`, { status, retryAfter })
}

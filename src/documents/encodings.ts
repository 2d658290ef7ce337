import { promisify } from 'node:util'
import { type BrotliOptions, brotliCompress, brotliCompressSync, constants, gzip, gzipSync } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import Negotiator from 'negotiator'

/** The content codings of stored documents, best first. */
export const encodings = ['br', 'gzip', 'identity'] as const
export type Encoding = (typeof encodings)[number]

/** A document's bytes in every coding. */
export interface EncodedDocument {
  identity: Buffer
  gzip: Buffer
  br: Buffer
}

/**
 * Above this size, lower levels are used, because the time matters more than the last percent. For 2 MB with 5,000
 * versions, gzip takes 29 ms at level 9 and 16 ms at level 4. Brotli takes 106 ms and 14 ms. The sizes are about the
 * same.
 */
const largeBytes = 128 * 1024

/**
 * Up to this size, a document is compressed on the main thread. The thread pool would cost more than the work. For 2
 * KB, gzip takes 0.09 ms on the main thread and 0.27 ms in the pool. Brotli takes 0.07 ms and 0.25 ms.
 */
const smallBytes = 16 * 1024

/** Compresses a document into every coding. Small documents get the best level, large ones a fast level. */
export async function encodeDocument(identity: Buffer): Promise<EncodedDocument> {
  const [gzipped, br] = await Promise.all([compress(identity, 'gzip'), compress(identity, 'br')])
  return { identity, gzip: gzipped, br }
}

/** Compresses bytes into one coding. Large documents are compressed in the thread pool. */
export async function compress(bytes: Buffer, encoding: Encoding): Promise<Buffer> {
  if (encoding === 'identity') return bytes
  const level = bytes.length > largeBytes ? 4 : 9
  const isSmall = bytes.length <= smallBytes
  if (encoding === 'gzip') return isSmall ? gzipSync(bytes, { level }) : promisify(gzip)(bytes, { level })
  const options = brotliOptions(bytes.length, level)
  return isSmall ? brotliCompressSync(bytes, options) : promisify(brotliCompress)(bytes, options)
}

/**
 * Chooses the smallest window that holds the document. A larger window would not compress better, and costs more to set
 * up.
 */
function brotliOptions(size: number, quality: number): BrotliOptions {
  const window = Math.ceil(Math.log2(size + 16))
  return {
    params: {
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      [constants.BROTLI_PARAM_QUALITY]: quality,
      [constants.BROTLI_PARAM_SIZE_HINT]: size,
      [constants.BROTLI_PARAM_LGWIN]: Math.min(
        Math.max(window, constants.BROTLI_MIN_WINDOW_BITS),
        constants.BROTLI_DEFAULT_WINDOW,
      ),
    },
  }
}

/** The codings of the last headers. All requests of Composer have the same header. */
const chosen = new LRUCache<string, Encoding>({ max: 100 })

/**
 * Returns the smallest content coding that an Accept-Encoding header allows (RFC 9110 §12.5.3). Ignores the weights,
 * because all codings are stored already. Returns identity when the header is missing or allows none of them.
 */
export function chooseEncoding(header: string | undefined): Encoding {
  if (header === undefined) return 'identity'
  const known = chosen.get(header)
  if (known !== undefined) return known
  const allowed = new Negotiator({ headers: { 'accept-encoding': header } }).encodings([...encodings])
  const best = encodings.find((encoding) => allowed.includes(encoding)) ?? 'identity'
  chosen.set(header, best)
  return best
}

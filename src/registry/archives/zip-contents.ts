import { pipeline } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { crc32, createInflateRaw, type InflateRaw, inflateRawSync } from 'node:zlib'
import type { Entry, ZipFile } from 'yauzl'
import { entryRefusal, parsing, quoted } from './archive-refusal.ts'
import type { ZipReader } from './zip-reader.ts'

interface NamedEntry {
  header: Entry
  name: string
}

/** Up to this size, inflating in place is faster than the thread pool: it takes a tenth of a millisecond. */
const SMALL_BYTES = 16_384

/**
 * Yields the inflated bytes of an entry, one chunk at a time. It does not trust the headers. Too many bytes throw at
 * once. Too few bytes, a wrong checksum, or bytes after the deflated stream throw at the end. A caller that reads to
 * the end has therefore counted the real bytes.
 */
export async function* inflateEntry(
  zip: ZipFile,
  reader: ZipReader,
  entry: NamedEntry,
): AsyncGenerator<Buffer, void, void> {
  const { header, name } = entry
  const isSmall = header.compressedSize <= SMALL_BYTES && header.uncompressedSize <= SMALL_BYTES
  const chunks = isSmall ? inflateSmall(zip, reader, entry) : inflateLarge(zip, entry)
  let size = 0
  let checksum = 0
  try {
    for (;;) {
      const { done, value } = await parsing(quoted(name), chunks.next())
      if (done) break
      size += value.length
      if (size > header.uncompressedSize) throw tooMuch(entry)
      checksum = crc32(value, checksum)
      yield value
    }
  } finally {
    await chunks.return()
  }
  if (size < header.uncompressedSize) {
    throw entryRefusal(name, `holds ${size} bytes, not the ${header.uncompressedSize} it announces`)
  }
  if (checksum !== header.crc32) throw entryRefusal(name, 'does not match its checksum')
}

/** Inflates at once, then lets other requests run. */
async function* inflateSmall(
  zip: ZipFile,
  reader: ZipReader,
  entry: NamedEntry,
): AsyncGenerator<Buffer, void, void> {
  const { header } = entry
  const { fileDataStart } = await zip.readLocalFileHeaderPromise(header, { minimal: true })
  const raw = await reader.bytes(fileDataStart, fileDataStart + header.compressedSize)
  if (header.compressionMethod === 0) {
    yield raw
  } else {
    const { buffer, engine } = inflateAtMost(raw, header.uncompressedSize, entry)
    refuseRest(engine, entry)
    yield buffer
  }
  await setImmediate()
}

function inflateAtMost(
  raw: Buffer,
  maxBytes: number,
  entry: NamedEntry,
): { buffer: Buffer; engine: InflateRaw } {
  try {
    // With `info` Node also returns the engine, which is missing in its types.
    const inflated: unknown = inflateRawSync(raw, { info: true, maxOutputLength: Math.max(1, maxBytes) })
    return inflated as { buffer: Buffer; engine: InflateRaw }
  } catch (error) {
    if (error instanceof RangeError) throw tooMuch(entry)
    throw error
  }
}

/** Inflates in the thread pool of zlib, at the speed of the reader. */
async function* inflateLarge(zip: ZipFile, entry: NamedEntry): AsyncGenerator<Buffer, void, void> {
  const raw = await zip.openReadStreamPromise(entry.header, { decodeFileData: false })
  if (entry.header.compressionMethod === 0) {
    yield* raw
    return
  }
  const inflater = createInflateRaw({ chunkSize: 65_536 })
  try {
    // The loop sees the errors of both streams, so the rejection of pipeline itself is ignored.
    yield* pipeline(raw, inflater, () => {})
    refuseRest(inflater, entry)
  } finally {
    inflater.destroy()
    raw.destroy()
  }
}

function refuseRest(inflater: InflateRaw, { header, name }: NamedEntry): void {
  if (inflater.bytesWritten !== header.compressedSize) {
    throw entryRefusal(name, 'holds bytes behind its compressed contents')
  }
}

function tooMuch({ header, name }: NamedEntry) {
  return entryRefusal(name, `holds more than the ${header.uncompressedSize} bytes it announces`)
}

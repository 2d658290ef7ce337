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

/** Up to this size inflating takes less than the trip to the thread pool: a tenth of a millisecond. */
const SMALL_BYTES = 16_384

/**
 * An entry's bytes, inflated, one chunk held at a time. Headers are not believed: more bytes than announced end
 * the reading at once, fewer bytes, a wrong checksum, or a rest behind the deflated stream are refused at the end.
 * So whoever reads to the end has counted the real bytes.
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

/** In one go, then giving way to other requests. */
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
    // With `info` Node answers the engine, too, which its types do not know.
    const inflated: unknown = inflateRawSync(raw, { info: true, maxOutputLength: Math.max(1, maxBytes) })
    return inflated as { buffer: Buffer; engine: InflateRaw }
  } catch (error) {
    if (error instanceof RangeError) throw tooMuch(entry)
    throw error
  }
}

/** In zlib's thread pool, no faster than it is read. */
async function* inflateLarge(zip: ZipFile, entry: NamedEntry): AsyncGenerator<Buffer, void, void> {
  const raw = await zip.openReadStreamPromise(entry.header, { decodeFileData: false })
  if (entry.header.compressionMethod === 0) {
    yield* raw
    return
  }
  const inflater = createInflateRaw({ chunkSize: 65_536 })
  try {
    // The loop sees the errors of both streams; pipeline's own report of them has nobody to hear it.
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

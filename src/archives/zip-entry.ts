import { pipeline } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { crc32, createInflateRaw, type InflateRaw, inflateRawSync } from 'node:zlib'
import { type Entry, type LocalFileHeader, parseExtraFields, type ZipFile } from 'yauzl'
import { entryRefusal, parsing, quoted } from './archive-entry.ts'
import { readUInt64, type ZipReader } from './zip-directory.ts'

const LOCAL_HEADER_BYTES = 30
const DESCRIPTOR_SIGNATURE = 0x08074b50
const FLAG_DESCRIPTOR = 1 << 3
const FLAG_UTF8 = 1 << 11
/** Flags of encryption, patch data, strong encryption, and masked headers. */
const FLAGS_UNREADABLE = (1 << 0) | (1 << 5) | (1 << 6) | (1 << 13)
const EXTRA_ZIP64 = 0x0001
const EXTRA_UNICODE_PATH = 0x7075
/**
 * DOS, OS/2 and Windows NT. If an entry was created there and its name has no UTF-8 flag, unzip reads the name in the
 * code page of DOS.
 */
const HOSTS_OF_DOS = [0, 6, 11]
/** The version that zip64 needs: 4.5. Higher versions are refused, because unzip skips entries that need them. */
const VERSION_ZIP64 = 45

/** Checks the central header. Refuses an entry that is encrypted, or neither stored nor deflated. */
export function refuseUnreadable(header: Entry, name: string): void {
  if (header.generalPurposeBitFlag & FLAGS_UNREADABLE) throw entryRefusal(name, 'is encrypted or patched')
  if (header.compressionMethod !== 0 && header.compressionMethod !== 8) {
    throw entryRefusal(name, `is compressed by method ${header.compressionMethod}, not by deflate`)
  }
  if (header.versionNeededToExtract > VERSION_ZIP64) {
    throw entryRefusal(
      name,
      `needs version ${header.versionNeededToExtract / 10} of zip, but svc supports at most 4.5`,
    )
  }
  if (header.compressionMethod === 0 && header.compressedSize !== header.uncompressedSize) {
    throw entryRefusal(name, 'is stored, but its two sizes differ')
  }
  if (isUnmarked(header) && HOSTS_OF_DOS.includes(header.versionMadeBy >> 8)) {
    throw entryRefusal(name, 'is not marked as UTF-8, and would be unpacked under another name')
  }
  refuseOtherUnicodeName(header.fileNameRaw, header.extraFieldRaw, name)
}

/** Returns whether a name has non-ASCII bytes but no UTF-8 flag. */
export function isUnmarked({ generalPurposeBitFlag, fileNameRaw }: Entry): boolean {
  return (generalPurposeBitFlag & FLAG_UTF8) === 0 && fileNameRaw.some((byte) => byte > 127)
}

/**
 * Compares an entry's local header, which yauzl does not read, with the directory. unzip and PHP read the directory,
 * but other parsers read the local headers. If the two differed, clients would unpack different packages. For the same
 * reason, the entry must end exactly at `limit`, where the next entry begins. Overlapping entries are a zip bomb, and
 * bytes between entries are invisible to some parsers.
 */
export async function compareLocalHeader(
  zip: ZipFile,
  reader: ZipReader,
  { header, name }: { header: Entry; name: string },
  limit: number,
): Promise<void> {
  if (header.relativeOffsetOfLocalHeader + LOCAL_HEADER_BYTES > limit) {
    throw entryRefusal(name, 'overlaps the data that follows it')
  }

  const local = await parsing(quoted(name), zip.readLocalFileHeaderPromise(header))
  if (!local.fileName.equals(header.fileNameRaw))
    throw entryRefusal(name, 'has another name in its local header')
  if (local.compressionMethod !== header.compressionMethod) {
    throw entryRefusal(name, 'has another compression method in its local header')
  }
  const differingFlags = local.generalPurposeBitFlag ^ header.generalPurposeBitFlag
  if (differingFlags & (FLAGS_UNREADABLE | FLAG_DESCRIPTOR | FLAG_UTF8)) {
    throw entryRefusal(name, 'has other flags in its local header')
  }
  refuseOtherUnicodeName(local.fileName, local.extraField, name)
  refuseOtherSizes(header, local, name)

  const dataEnd = local.fileDataStart + header.compressedSize
  if (dataEnd > limit) throw entryRefusal(name, 'overlaps the data that follows it')
  const rest = limit - dataEnd
  if (header.generalPurposeBitFlag & FLAG_DESCRIPTOR) {
    if (rest > 24 || !isDescriptorOf(header, await reader.bytes(dataEnd, limit))) {
      throw entryRefusal(name, 'has no data descriptor, or a wrong one')
    }
  } else if (rest > 0) {
    throw entryRefusal(name, `comes before ${rest} bytes that belong to no entry`)
  }
}

/** When a data descriptor follows, the local header may leave its three values at 0. Other values must match. */
function refuseOtherSizes(header: Entry, local: LocalFileHeader, name: string): void {
  const mayBeOpen = (header.generalPurposeBitFlag & FLAG_DESCRIPTOR) !== 0
  const [uncompressedSize, compressedSize] = localSizes(local, name)
  const pairs = [
    [local.crc32, header.crc32],
    [compressedSize, header.compressedSize],
    [uncompressedSize, header.uncompressedSize],
  ]
  if (pairs.some(([here, there]) => here !== there && !(mayBeOpen && here === 0))) {
    throw entryRefusal(name, 'has another size or checksum in its local header')
  }
}

/** Returns the local sizes, uncompressed first. They come from the zip64 field if the header refers to it. */
function localSizes(local: LocalFileHeader, name: string): [uncompressed: number, compressed: number] {
  const wide = extraFields(local.extraField, name).find(({ id }) => id === EXTRA_ZIP64)?.data
  let at = 0
  const widen = (size: number): number => {
    if (size !== 0xffffffff) return size
    at += 8
    if (!wide || at > wide.length) throw entryRefusal(name, 'lacks the zip64 sizes of its local header')
    return readUInt64(wide, at - 8)
  }
  return [widen(local.uncompressedSize), widen(local.compressedSize)]
}

/** Returns whether the descriptor matches. Its length shows whether it has a signature, and sizes of 4 or 8 bytes. */
function isDescriptorOf(header: Entry, bytes: Buffer): boolean {
  if (![12, 16, 20, 24].includes(bytes.length)) return false
  const signatureBytes = bytes.length % 8 === 0 ? 4 : 0
  if (signatureBytes > 0 && bytes.readUInt32LE(0) !== DESCRIPTOR_SIGNATURE) return false
  const sizes = bytes.subarray(signatureBytes + 4)
  const [compressedSize, uncompressedSize] =
    sizes.length === 16
      ? [readUInt64(sizes, 0), readUInt64(sizes, 8)]
      : [sizes.readUInt32LE(0), sizes.readUInt32LE(4)]
  return (
    bytes.readUInt32LE(signatureBytes) === header.crc32 &&
    compressedSize === header.compressedSize &&
    uncompressedSize === header.uncompressedSize
  )
}

/** Refuses another name in Info-ZIP's Unicode Path field. unzip and PHP prefer that field to the name in the header. */
function refuseOtherUnicodeName(rawName: Buffer, extra: Buffer, name: string): void {
  const others = extraFields(extra, name).filter(({ id }) => id === EXTRA_UNICODE_PATH)
  if (others.some(({ data }) => !data.subarray(5).equals(rawName))) {
    throw entryRefusal(name, 'has another name in its extra field')
  }
}

/** Parses the extra fields. Refuses an incomplete field at the end, because PHP cannot open such an archive. */
function extraFields(extra: Buffer, name: string) {
  const fields = parsedFields(extra)
  const bytes = fields?.reduce((sum, { data }) => sum + 4 + data.length, 0)
  if (!fields || bytes !== extra.length) throw entryRefusal(name, 'has a damaged extra field')
  return fields
}

function parsedFields(extra: Buffer) {
  try {
    return parseExtraFields(extra)
  } catch {
    return null
  }
}

interface NamedEntry {
  header: Entry
  name: string
}

/**
 * Up to this size, inflating on the main thread is faster than in the thread pool. It takes a tenth of a millisecond.
 */
const SMALL_BYTES = 16_384

/**
 * Yields the inflated bytes of an entry, one chunk at a time. It does not trust the headers. It throws at once for too
 * many bytes. At the end, it throws for too few bytes, a wrong checksum, or bytes after the deflated stream. So a
 * caller that reads to the end has counted the real bytes.
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
    throw entryRefusal(name, `has ${size} bytes, but its header says ${header.uncompressedSize}`)
  }
  if (checksum !== header.crc32) throw entryRefusal(name, 'does not match its checksum')
}

/** Inflates a small entry on the main thread, and then lets other requests run. */
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
    // With `info`, Node also returns the engine, although its types do not show that.
    const inflated: unknown = inflateRawSync(raw, { info: true, maxOutputLength: Math.max(1, maxBytes) })
    return inflated as { buffer: Buffer; engine: InflateRaw }
  } catch (error) {
    if (error instanceof RangeError) throw tooMuch(entry)
    throw error
  }
}

/** Inflates a large entry in the thread pool of zlib, at the speed of the reader. */
async function* inflateLarge(zip: ZipFile, entry: NamedEntry): AsyncGenerator<Buffer, void, void> {
  const raw = await zip.openReadStreamPromise(entry.header, { decodeFileData: false })
  if (entry.header.compressionMethod === 0) {
    yield* raw
    return
  }
  const inflater = createInflateRaw({ chunkSize: 65_536 })
  try {
    // The loop handles the errors of both streams, so the callback of `pipeline` ignores them.
    yield* pipeline(raw, inflater, () => {})
    refuseRest(inflater, entry)
  } finally {
    inflater.destroy()
    raw.destroy()
  }
}

function refuseRest(inflater: InflateRaw, { header, name }: NamedEntry): void {
  if (inflater.bytesWritten !== header.compressedSize) {
    throw entryRefusal(name, 'has bytes after its compressed contents')
  }
}

function tooMuch({ header, name }: NamedEntry) {
  return entryRefusal(name, `has more than the ${header.uncompressedSize} bytes in its header`)
}

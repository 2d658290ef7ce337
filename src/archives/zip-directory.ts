import type { FileHandle } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { RandomAccessReader } from 'yauzl'
import { archiveRefusal } from './archive-entry.ts'

const CENTRAL_HEADER = Buffer.from('PK\x01\x02', 'latin1')
const LOCAL_HEADER = Buffer.from('PK\x03\x04', 'latin1')
const END = Buffer.from('PK\x05\x06', 'latin1')
const END_BYTES = 22
const END_64 = Buffer.from('PK\x06\x06', 'latin1')
const END_64_BYTES = 56
const LOCATOR_64 = Buffer.from('PK\x06\x07', 'latin1')
const LOCATOR_64_BYTES = 20
const MAX_COMMENT_BYTES = 0xffff

/** The bytes of a zip: all of them, an open file, or a function that reads some of them. */
export type ZipSource = FileHandle | Buffer | { size: number; bytes: ReadBytes }

/** The position of the central directory, in bytes from the start of the file. `end` is not included. */
export interface Directory {
  entryCount: number
  start: number
  end: number
}

/** The fields of an end record, classic or zip64, in their common order. */
type EndFields = [
  disk: number,
  directoryDisk: number,
  onDisk: number,
  count: number,
  bytes: number,
  start: number,
]

/**
 * Finds the central directory, and makes sure that every parser finds the same one. Refuses a file that is not a zip,
 * is truncated, or is one part of several. Also refuses bytes before or after the archive, and a second end record that
 * another parser might use.
 */
export async function findDirectory(file: ZipSource): Promise<Directory> {
  const size = Buffer.isBuffer(file) ? file.length : 'bytes' in file ? file.size : (await file.stat()).size
  const tailStart = Math.max(0, size - END_BYTES - LOCATOR_64_BYTES - MAX_COMMENT_BYTES)
  const tail = await readAt(file, tailStart, size)
  const at = tail.subarray(0, Math.max(0, tail.length - END_BYTES + END.length)).lastIndexOf(END)
  if (at < 0) throw archiveRefusal(whatItIs(await readAt(file, 0, Math.min(4, size))))

  const left = tail.length - at - END_BYTES
  const commentBytes = tail.readUInt16LE(at + 20)
  if (commentBytes < left) throw archiveRefusal(`${left - commentBytes} bytes follow its end`)
  if (commentBytes > left) throw archiveRefusal('it is cut off within its comment')

  const classic: EndFields = [
    tail.readUInt16LE(at + 4),
    tail.readUInt16LE(at + 6),
    tail.readUInt16LE(at + 8),
    tail.readUInt16LE(at + 10),
    tail.readUInt32LE(at + 12),
    tail.readUInt32LE(at + 16),
  ]
  const wide = hasLocator(tail, at) ? await readEnd64(file, tail, at - LOCATOR_64_BYTES, tailStart) : null
  if (wide) refuseContradiction(classic, wide.fields)

  const [disk, directoryDisk, onDisk, entryCount, bytes, start] = wide?.fields ?? classic
  if (disk !== 0 || directoryDisk !== 0 || onDisk !== entryCount) {
    throw archiveRefusal('it is one part of an archive in several parts')
  }
  const end = wide?.at ?? tailStart + at
  if (start + bytes !== end) {
    throw archiveRefusal(
      `its directory ends at byte ${end}, but by its end record at byte ${start + bytes}`,
      ['Something was added to the archive, or removed from it, after it was created.'],
    )
  }
  await refuseSecondEnd(file, tail, at)
  return { entryCount, start, end }
}

function hasLocator(tail: Buffer, endAt: number): boolean {
  const at = endAt - LOCATOR_64_BYTES
  return at >= 0 && tail.subarray(at, at + 4).equals(LOCATOR_64)
}

async function readEnd64(file: ZipSource, tail: Buffer, locatorAt: number, tailStart: number) {
  const at = readUInt64(tail, locatorAt + 8)
  const locatorStart = tailStart + locatorAt
  if (at + END_64_BYTES > locatorStart) throw archiveRefusal('its zip64 end record is outside the file')
  const record = await readAt(file, at, at + END_64_BYTES)
  if (!record.subarray(0, 4).equals(END_64))
    throw archiveRefusal('its zip64 end record is not where it should be')
  if (at + 12 + readUInt64(record, 4) !== locatorStart)
    throw archiveRefusal('its zip64 end record has a wrong size')
  if (tail.readUInt32LE(locatorAt + 4) !== 0 || tail.readUInt32LE(locatorAt + 16) !== 1) {
    throw archiveRefusal('it is one part of an archive in several parts')
  }
  const fields: EndFields = [
    record.readUInt32LE(16),
    record.readUInt32LE(20),
    readUInt64(record, 24),
    readUInt64(record, 32),
    readUInt64(record, 40),
    readUInt64(record, 48),
  ]
  return { at, fields }
}

/**
 * Refuses a zip64 record that contradicts the classic one, because parsers use them differently. yauzl and libzip use
 * any zip64 record that exists. unzip uses it only for fields whose bits are all set.
 */
function refuseContradiction(classic: EndFields, wide: EndFields): void {
  const full = [0xffff, 0xffff, 0xffff, 0xffff, 0xffffffff, 0xffffffff]
  if (!classic.every((value, i) => value === full[i] || value === wide[i])) {
    throw archiveRefusal('its two end records contradict each other')
  }
}

/**
 * Refuses a second end record that points to a directory in this file. Parsers search for the end record in the last 64
 * KiB, some forwards and some backwards. The signature may also occur there by chance, or in a stored zip.
 */
async function refuseSecondEnd(file: ZipSource, tail: Buffer, endAt: number): Promise<void> {
  for (let at = tail.indexOf(END); at >= 0 && at < endAt; at = tail.indexOf(END, at + 1)) {
    if (at + END_BYTES > tail.length) return
    const start = tail.readUInt32LE(at + 16)
    const leadsTo = await readAt(file, start, start + 4)
    if (hasLocator(tail, at) || leadsTo.equals(CENTRAL_HEADER)) {
      throw archiveRefusal('it has two end records, and so two tables of contents')
    }
  }
}

function whatItIs(firstBytes: Buffer): string {
  if (firstBytes.equals(LOCAL_HEADER)) return 'it is cut off: its end record is missing'
  if (firstBytes.length >= 2 && firstBytes.readUInt16BE(0) === 0x1f8b) return 'it is gzip, not zip'
  return 'it is not a zip file'
}

/** Reads a number of 8 bytes. A number above 2^53 is not exact, but it is larger than every file anyway. */
export function readUInt64(buffer: Buffer, at: number): number {
  return Number(buffer.readBigUInt64LE(at))
}

const WINDOW_BYTES = 65_536

/** Returns the bytes [start, end) of an archive, or fewer at the end of the archive. */
export type ReadBytes = (start: number, end: number) => Promise<Buffer>

/**
 * A buffered reader for yauzl. yauzl reads a few dozen bytes at a time, and each read uses the thread pool. An archive
 * of 45,000 small files took 25 s. Headers and small contents are neighbours, so this reader fetches 64 KiB at a time
 * and serves reads from there.
 */
export class ZipReader extends RandomAccessReader {
  readonly #readBytes: ReadBytes
  readonly #windowBytes: number
  #window: Buffer = Buffer.alloc(0)
  #windowStart = 0

  /** Reads from a file or through a function. The caller closes the file. Each read gets at least `windowBytes`. */
  constructor(source: FileHandle | ReadBytes, windowBytes = WINDOW_BYTES) {
    super()
    this.#readBytes = typeof source === 'function' ? source : (start, end) => readAt(source, start, end)
    this.#windowBytes = windowBytes
  }

  /** Returns the bytes [start, end), or fewer at the end of the file. Later calls do not change the returned bytes. */
  async bytes(start: number, end: number): Promise<Buffer> {
    if (start < this.#windowStart || end > this.#windowStart + this.#window.length) {
      this.#window = await this.#readBytes(start, Math.max(end, start + this.#windowBytes))
      this.#windowStart = start
    }
    return this.#window.subarray(start - this.#windowStart, end - this.#windowStart)
  }

  /** yauzl calls this to read headers. */
  override read(
    target: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null) => void,
  ): void {
    this.bytes(position, position + length).then((bytes) => {
      bytes.copy(target, offset)
      callback(bytes.length < length ? new Error('unexpected end of file') : null)
    }, callback)
  }

  /** yauzl calls this to read the contents of entries. */
  override _readStreamForRange(start: number, end: number): Readable {
    return Readable.from(this.#chunks(start, end), { objectMode: false })
  }

  async *#chunks(start: number, end: number): AsyncGenerator<Buffer, void, void> {
    for (let at = start; at < end; ) {
      const chunk = await this.bytes(at, Math.min(end, at + WINDOW_BYTES))
      if (chunk.length === 0) return
      yield chunk
      at += chunk.length
    }
  }
}

/** Reads the bytes [start, end) of a file, or fewer at the end of the file. The file may be in memory. */
export async function readAt(file: ZipSource, start: number, end: number): Promise<Buffer> {
  if (Buffer.isBuffer(file)) return file.subarray(start, end)
  if ('bytes' in file) return file.bytes(start, end)
  const buffer = Buffer.allocUnsafe(end - start)
  let length = 0
  while (length < buffer.length) {
    const { bytesRead } = await file.read(buffer, length, buffer.length - length, start + length)
    if (bytesRead === 0) break
    length += bytesRead
  }
  return buffer.subarray(0, length)
}

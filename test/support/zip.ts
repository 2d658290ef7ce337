import { crc32, deflateRawSync } from 'node:zlib'

/** A package's files by name: `aZip({ 'composer.json': '{"name":"acme/lib"}', 'src/Lib.php': '<?php' })`. */
export function aZip(files: Record<string, string | Buffer>): Buffer {
  return craftZip(Object.entries(files).map(([name, content]) => ({ name, content })))
}

/** The fields of a local or central header. They may be false. */
export interface ZipFields {
  name: string | Buffer
  flags: number
  method: number
  crc: number
  compressedSize: number
  uncompressedSize: number
  extra: Buffer
  /** The version of zip needed to extract, in tenths; 45 is zip64. */
  needed: number
  /** Only in the central directory: the host that made the entry (3 is Unix). */
  host: number
  /** Only in the central directory: the external attributes. */
  attributes: number
  /** Only in the central directory: the offset of the local header. */
  offset: number
}

/** An entry whose fields may all be false. */
export interface CraftedEntry {
  name: string | Buffer
  content?: string | Buffer
  /** The compression: 8 is deflated (the default), 0 is stored. */
  method?: number
  /** The Unix mode, with the type of file: 0o120777 is a link. */
  mode?: number
  flags?: number
  extra?: Buffer
  /** The size of a data descriptor in bytes: 16 and 24 have a signature, 20 and 24 have sizes of 8 bytes. */
  descriptor?: 12 | 16 | 20 | 24
  /** The bytes of the descriptor, when they are false. */
  descriptorBytes?: Buffer
  /** Stores sizes and offset in a zip64 field. */
  zip64?: boolean
  /** The bytes in the archive, when they are not the deflated content. */
  raw?: Buffer
  local?: Partial<ZipFields>
  central?: Partial<ZipFields>
  /** Additional bytes before the local header. */
  junk?: Buffer
  /** The entry exists only in the file, or only in the directory. */
  only?: 'local' | 'central'
}

/** The other parts of a crafted archive. */
export interface CraftedEnd {
  prefix?: Buffer
  /** Bytes between the directory and its end record. */
  gap?: Buffer
  comment?: Buffer
  suffix?: Buffer
  zip64?: boolean
  /** Fields of the classic end record. */
  end?: Partial<EndFields>
  /** Fields of the zip64 end record. */
  end64?: Partial<EndFields>
  /** An offset that makes the zip64 locator point to a wrong place. It is added to the size of the record, too. */
  locatorShift?: number
  recordShift?: number
  /** The number of parts in the zip64 locator. */
  disks?: number
}

interface EndFields {
  disk: number
  onDisk: number
  count: number
  bytes: number
  start: number
  commentBytes: number
}

const UTF8 = 1 << 11
const DESCRIPTOR = 1 << 3
const FULL = 0xffffffff

/** Writes an archive with exactly these values. All other values are correct. */
export function craftZip(entries: CraftedEntry[], options: CraftedEnd = {}): Buffer {
  const parts: Buffer[] = [options.prefix ?? Buffer.alloc(0)]
  let at = parts[0]?.length ?? 0
  const write = (...buffers: Buffer[]) => {
    for (const buffer of buffers) {
      parts.push(buffer)
      at += buffer.length
    }
  }
  const directory: Buffer[] = []
  for (const entry of entries) {
    write(entry.junk ?? Buffer.alloc(0))
    const fields = { ...fieldsOf(entry), offset: at }
    if (entry.only !== 'local')
      directory.push(centralHeader({ ...fields, ...entry.central }, entry.zip64 ?? false))
    if (entry.only === 'central') continue
    const open = entry.descriptor ? { crc: 0, compressedSize: 0, uncompressedSize: 0 } : {}
    write(localHeader({ ...fields, ...open, ...entry.local }, entry.zip64 ?? false), rawOf(entry))
    if (entry.descriptor) write(entry.descriptorBytes ?? descriptorOf(fields, entry.descriptor))
  }
  const start = at - (options.prefix?.length ?? 0)
  write(...directory)
  const truth = { disk: 0, onDisk: directory.length, count: directory.length, start, commentBytes: 0 }
  const bytes = at - (options.prefix?.length ?? 0) - start
  write(options.gap ?? Buffer.alloc(0))
  if (options.zip64) {
    write(...end64({ ...truth, bytes, ...options.end64 }, at, options))
  }
  const full = { onDisk: 0xffff, count: 0xffff, bytes: FULL, start: FULL }
  const comment = options.comment ?? Buffer.alloc(0)
  const classic = {
    ...truth,
    bytes,
    ...(options.zip64 ? full : {}),
    commentBytes: comment.length,
    ...options.end,
  }
  write(endRecord(classic), comment, options.suffix ?? Buffer.alloc(0))
  return Buffer.concat(parts)
}

function fieldsOf(entry: CraftedEntry): Omit<ZipFields, 'offset'> {
  const content = Buffer.from(entry.content ?? '')
  return {
    name: entry.name,
    flags: (entry.flags ?? UTF8) | (entry.descriptor ? DESCRIPTOR : 0),
    method: entry.method ?? 8,
    crc: crc32(content),
    compressedSize: rawOf(entry).length,
    uncompressedSize: content.length,
    extra: entry.extra ?? Buffer.alloc(0),
    needed: entry.zip64 ? 45 : 20,
    host: 3,
    attributes: ((entry.mode ?? (entry.name.toString().endsWith('/') ? 0o040755 : 0o100644)) << 16) >>> 0,
  }
}

function rawOf(entry: CraftedEntry): Buffer {
  const content = Buffer.from(entry.content ?? '')
  return entry.raw ?? ((entry.method ?? 8) === 8 ? deflateRawSync(content) : content)
}

function localHeader(fields: ZipFields, zip64: boolean): Buffer {
  const name = Buffer.from(fields.name)
  const wide = zip64 ? zip64Extra([fields.uncompressedSize, fields.compressedSize]) : Buffer.alloc(0)
  const extra = Buffer.concat([wide, fields.extra])
  const header = Buffer.alloc(30)
  header.write('PK\x03\x04', 'latin1')
  header.writeUInt16LE(fields.needed, 4)
  header.writeUInt16LE(fields.flags, 6)
  header.writeUInt16LE(fields.method, 8)
  header.writeUInt16LE(0x5821, 12)
  header.writeUInt32LE(fields.crc, 14)
  header.writeUInt32LE(zip64 ? FULL : fields.compressedSize, 18)
  header.writeUInt32LE(zip64 ? FULL : fields.uncompressedSize, 22)
  header.writeUInt16LE(name.length, 26)
  header.writeUInt16LE(extra.length, 28)
  return Buffer.concat([header, name, extra])
}

function centralHeader(fields: ZipFields, zip64: boolean): Buffer {
  const name = Buffer.from(fields.name)
  const sizes = [fields.uncompressedSize, fields.compressedSize, fields.offset]
  const extra = Buffer.concat([zip64 ? zip64Extra(sizes) : Buffer.alloc(0), fields.extra])
  const header = Buffer.alloc(46)
  header.write('PK\x01\x02', 'latin1')
  header.writeUInt16LE((fields.host << 8) | 30, 4)
  header.writeUInt16LE(fields.needed, 6)
  header.writeUInt16LE(fields.flags, 8)
  header.writeUInt16LE(fields.method, 10)
  header.writeUInt16LE(0x5821, 14)
  header.writeUInt32LE(fields.crc, 16)
  header.writeUInt32LE(zip64 ? FULL : fields.compressedSize, 20)
  header.writeUInt32LE(zip64 ? FULL : fields.uncompressedSize, 24)
  header.writeUInt16LE(name.length, 28)
  header.writeUInt16LE(extra.length, 30)
  header.writeUInt32LE(fields.attributes, 38)
  header.writeUInt32LE(zip64 ? FULL : fields.offset, 42)
  return Buffer.concat([header, name, extra])
}

function descriptorOf(
  fields: Pick<ZipFields, 'crc' | 'compressedSize' | 'uncompressedSize'>,
  bytes: number,
): Buffer {
  const descriptor = Buffer.alloc(bytes)
  let at = 0
  if (bytes % 8 === 0) at = descriptor.write('PK\x07\x08', 'latin1')
  at = descriptor.writeUInt32LE(fields.crc, at)
  for (const size of [fields.compressedSize, fields.uncompressedSize]) {
    at = bytes >= 20 ? descriptor.writeBigUInt64LE(BigInt(size), at) : descriptor.writeUInt32LE(size, at)
  }
  return descriptor
}

/** Returns a field of an extra block. */
export function extraField(id: number, data: Buffer): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt16LE(id)
  head.writeUInt16LE(data.length, 2)
  return Buffer.concat([head, data])
}

/** Returns Info-ZIP's field with another name for the entry. The field is valid for this entry. */
export function unicodePathField(name: string, other: string): Buffer {
  const head = Buffer.alloc(5)
  head.writeUInt8(1)
  head.writeUInt32LE(crc32(name), 1)
  return extraField(0x7075, Buffer.concat([head, Buffer.from(other)]))
}

function zip64Extra(values: number[]): Buffer {
  const data = Buffer.alloc(values.length * 8)
  for (const [i, value] of values.entries()) data.writeBigUInt64LE(BigInt(value), i * 8)
  return extraField(0x0001, data)
}

function endRecord(fields: EndFields): Buffer {
  const record = Buffer.alloc(22)
  record.write('PK\x05\x06', 'latin1')
  record.writeUInt16LE(fields.disk, 4)
  record.writeUInt16LE(fields.disk, 6)
  record.writeUInt16LE(fields.onDisk, 8)
  record.writeUInt16LE(fields.count, 10)
  record.writeUInt32LE(fields.bytes, 12)
  record.writeUInt32LE(fields.start, 16)
  record.writeUInt16LE(fields.commentBytes, 20)
  return record
}

function end64(
  fields: EndFields,
  at: number,
  { locatorShift = 0, recordShift = 0, disks = 1 }: CraftedEnd,
): Buffer[] {
  const record = Buffer.alloc(56)
  record.write('PK\x06\x06', 'latin1')
  record.writeBigUInt64LE(BigInt(44 + recordShift), 4)
  record.writeUInt32LE(fields.disk, 16)
  record.writeUInt32LE(fields.disk, 20)
  record.writeBigUInt64LE(BigInt(fields.onDisk), 24)
  record.writeBigUInt64LE(BigInt(fields.count), 32)
  record.writeBigUInt64LE(BigInt(fields.bytes), 40)
  record.writeBigUInt64LE(BigInt(fields.start), 48)
  const locator = Buffer.alloc(20)
  locator.write('PK\x06\x07', 'latin1')
  locator.writeBigUInt64LE(BigInt(at + locatorShift), 8)
  locator.writeUInt32LE(disks, 16)
  return [record, locator]
}

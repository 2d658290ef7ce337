import { promisify } from 'node:util'
import { crc32, inflateRaw } from 'node:zlib'
import { fromRandomAccessReaderPromise } from 'yauzl'
import { openReadCache } from '../../domain/read-cache.ts'
import { limitConcurrency, makePause } from '../../domain/time-slices.ts'
import { type ArchiveEntry, parsing, readArchiveEntry } from './archive-entry.ts'
import type { ArchiveStore } from './archive-store.ts'
import {
  findPackageRoot,
  findReadme,
  maxReadmeBytes,
  type Readme,
  sortTree,
  toReadme,
} from './archive-tree.ts'
import { type ReadBytes, ZipReader } from './zip-directory.ts'
import { inflateEntry } from './zip-entry.ts'

const inflate = promisify(inflateRaw)

/** A file, directory or link of a package. */
export interface ArchiveFile {
  /** The path in the package, after Composer has unpacked it. */
  path: string
  kind: ArchiveEntry['kind']
  /** The size of the inflated contents, in bytes. */
  size: number
  /** The checksum of the contents, which was checked at the upload. */
  crc32: number
  compressedSize: number
  isDeflated: boolean
  /** The position of the local header. */
  offset: number
}

/** Reads single files of stored archives. */
export interface ArchiveBrowser {
  /**
   * Lists the files of an archive. A directory is directly followed by its contents. Null when the archive is missing.
   */
  list: (sha256: string) => Promise<readonly ArchiveFile[] | null>
  /** Returns the bytes of a file. Null when it is larger than `maxBytes`, or damaged. */
  read: (sha256: string, file: ArchiveFile, maxBytes: number) => Promise<Buffer | null>
}

/** The maximum number of files in all lists in memory together. Each file takes about 250 bytes. */
const maxCachedFiles = 100_000
/** How many bytes of the directory one request to a bucket reads. The directory of a large archive has 16 MiB. */
const windowBytes = 256 * 1024
/**
 * How many archives are listed at once. More would compete for the event loop, and for the connections to the bucket.
 */
const maxListedAtOnce = 3
const localHeaderBytes = 30

/** Opens the reader of single files. It reads only the necessary parts of an archive, also from a bucket. */
export function openArchiveBrowser(store: ArchiveStore): ArchiveBrowser {
  const inTurn = limitConcurrency(maxListedAtOnce)
  // The name of an archive is its hash, so its list of files never changes.
  const lists = openReadCache<readonly ArchiveFile[]>({
    maxSize: maxCachedFiles,
    sizeOf: (files) => files.length + 1,
    read: (sha256) => inTurn(async () => (await listFiles(store, sha256)) ?? undefined),
  })
  return {
    list: async (sha256) => (await lists.fetch(sha256)) ?? null,
    read: (sha256, file, maxBytes) => readFile(readerOf(store, sha256), file, maxBytes),
  }
}

function readerOf(store: ArchiveStore, sha256: string): ZipReader {
  const readBytes: ReadBytes = async (start, end) => {
    const opened = await store.read(sha256, { start, end: end - 1 })
    return opened ? Buffer.concat(await opened.bytes.toArray()) : Buffer.alloc(0)
  }
  return new ZipReader(readBytes, windowBytes)
}

async function listFiles(store: ArchiveStore, sha256: string): Promise<readonly ArchiveFile[] | null> {
  const stored = await store.stat(sha256)
  return stored && parsing('its directory', readDirectory(readerOf(store, sha256), stored.size))
}

async function readDirectory(reader: ZipReader, size: number): Promise<readonly ArchiveFile[]> {
  const options = { decodeStrings: false, validateEntrySizes: false, autoClose: false }
  const zip = await fromRandomAccessReaderPromise(reader, size, options)
  const pause = makePause()
  const entries: ArchiveEntry[] = []
  for await (const header of zip.eachEntry()) {
    entries.push(readArchiveEntry(header))
    await pause()
  }
  const root = findPackageRoot(entries)
  const files: ArchiveFile[] = []
  for (const { entry } of await sortTree(entries)) {
    if (entry.name.startsWith(root) && entry.name.length > root.length) files.push(toFile(entry, root))
    await pause()
  }
  return files
}

function toFile({ name, kind, header }: ArchiveEntry, root: string): ArchiveFile {
  return {
    path: name.slice(root.length),
    kind,
    size: header.uncompressedSize,
    crc32: header.crc32,
    compressedSize: header.compressedSize,
    isDeflated: header.compressionMethod !== 0,
    offset: header.relativeOffsetOfLocalHeader,
  }
}

/** Reads a file. Inflates it in the thread pool, and never to more than `maxBytes`. */
async function readFile(reader: ZipReader, file: ArchiveFile, maxBytes: number): Promise<Buffer | null> {
  if (Math.max(file.size, file.compressedSize) > maxBytes) return null
  const header = await reader.bytes(file.offset, file.offset + localHeaderBytes)
  if (header.length < localHeaderBytes) return null
  const start = file.offset + localHeaderBytes + header.readUInt16LE(26) + header.readUInt16LE(28)
  const raw = await reader.bytes(start, start + file.compressedSize)
  const limit = { maxOutputLength: Math.max(file.size, 1) }
  const bytes = file.isDeflated ? await inflate(raw, limit).catch(() => null) : raw
  return bytes !== null && bytes.length === file.size && crc32(bytes) === file.crc32 ? bytes : null
}

/** A name in a directory. */
export interface DirectoryEntry {
  name: string
  path: string
  kind: ArchiveFile['kind']
  /** Null for a directory. */
  size: number | null
}

/**
 * Lists a directory. Its directories come first. Null when the directory does not exist. '' is the root of the package.
 */
export function listDirectory(files: readonly ArchiveFile[], directory: string): DirectoryEntry[] | null {
  const prefix = directory === '' ? '' : `${directory}/`
  const directories = new Map<string, DirectoryEntry>()
  const others: DirectoryEntry[] = []
  let isKnown = directory === ''
  for (const { path, kind, size } of files) {
    if (path === directory && kind === 'directory') isKnown = true
    if (!path.startsWith(prefix) || path.length === prefix.length) continue
    isKnown = true
    const slash = path.indexOf('/', prefix.length)
    const child = slash < 0 ? path : path.slice(0, slash)
    const name = child.slice(prefix.length)
    if (slash >= 0 || kind === 'directory') {
      if (!directories.has(child))
        directories.set(child, { name, path: child, kind: 'directory', size: null })
    } else {
      others.push({ name, path, kind, size })
    }
  }
  return isKnown ? [...directories.values(), ...others] : null
}

/** The differences between the files of two archives. */
export interface ChangedFiles {
  added: string[]
  removed: string[]
  changed: string[]
}

/** Compares two archives by the size and checksum of each file, without reading contents. Ignores directories. */
export async function compareFiles(
  before: readonly ArchiveFile[],
  after: readonly ArchiveFile[],
): Promise<ChangedFiles> {
  const pause = makePause()
  const old = new Map<string, ArchiveFile>()
  for (const file of before) {
    if (file.kind !== 'directory') old.set(file.path, file)
    await pause()
  }
  const changes: ChangedFiles = { added: [], removed: [], changed: [] }
  for (const file of after) {
    await pause()
    if (file.kind === 'directory') continue
    const known = old.get(file.path)
    old.delete(file.path)
    if (!known) changes.added.push(file.path)
    else if (known.crc32 !== file.crc32 || known.size !== file.size || known.kind !== file.kind) {
      changes.changed.push(file.path)
    }
  }
  return { ...changes, removed: [...old.keys()] }
}

/** Returns the README of a stored archive. Null when the archive has no README. */
export async function readReadme(
  store: ArchiveStore,
  sha256: string,
): Promise<Readme | null | 'archive missing'> {
  const archive = await store.openFile(sha256)
  if (!archive) return 'archive missing'
  try {
    const options = { decodeStrings: false, validateEntrySizes: false, autoClose: false }
    const reader = new ZipReader(archive.file)
    const zip = await fromRandomAccessReaderPromise(reader, archive.size, options)
    const nearTop: ArchiveEntry[] = []
    for await (const header of zip.eachEntry()) {
      const entry = readArchiveEntry(header)
      if (/^(?:[^/]+\/)?(?:readme(?:\.\w+)?|composer\.json)$/i.test(entry.name)) nearTop.push(entry)
    }
    const readme = findReadme(nearTop, rootOf(nearTop))
    if (!readme) return null
    const chunks: Buffer[] = []
    let size = 0
    for await (const chunk of inflateEntry(zip, reader, readme)) {
      chunks.push(chunk)
      size += chunk.length
      if (size >= maxReadmeBytes) break
    }
    return toReadme(readme, chunks)
  } finally {
    await archive.file.close()
  }
}

/** Returns the directory of the manifest. The archive was checked when it was published. */
function rootOf(entries: readonly ArchiveEntry[]): string {
  const isAtTop = entries.some(({ name }) => name === 'composer.json')
  const manifest = isAtTop ? undefined : entries.find(({ name }) => name.endsWith('/composer.json'))
  return manifest?.name.slice(0, -'composer.json'.length) ?? ''
}

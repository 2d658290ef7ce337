import { LRUCache } from 'lru-cache'
import { fromRandomAccessReaderPromise } from 'yauzl'
import { Refusal } from '../domain/refusal.ts'
import { type ArchiveEntry, parsing, readArchiveEntry } from './archive-entry.ts'
import { findPackageRoot, sortTree } from './archive-tree.ts'
import { type ArchiveLimits, type CheckedZip, checkZip } from './check-zip.ts'
import { diffTexts } from './text-diff.ts'
import { ZipReader } from './zip-directory.ts'

/*
 * The work on archives that takes long, because they have many files. It runs in threads. Arguments and results are short,
 * or bytes, because the main thread needs time to copy long lists.
 */

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

/** A name in a directory. */
export interface DirectoryEntry {
  name: string
  path: string
  kind: ArchiveFile['kind']
  /** Null for a directory. */
  size: number | null
}

/** The differences of one kind between the files of two archives: the first paths, and how many more there are. */
export interface ChangedPaths {
  paths: string[]
  left: number
}

/** The differences between the files of two archives. */
export interface ChangedFiles {
  added: ChangedPaths
  removed: ChangedPaths
  changed: ChangedPaths
}

/** What is at a path of an archive: a file or link, or a part of a directory. */
export type AtPath =
  | { file: ArchiveFile; entries?: never }
  | { file?: never; entries: DirectoryEntry[]; isContinued: boolean }

/** An archive whose files a task needs. The thread keeps the lists of the archives that it used last. */
export interface NeededArchive {
  sha256: string
  /** Null when the thread may have the list. */
  directory: DirectoryBytes | null
}

/** The end of an archive, with its central directory. */
export interface DirectoryBytes {
  bytes: Uint8Array
  /** The position of the bytes in the archive. */
  start: number
  /** The size of the archive. */
  size: number
}

export type ArchiveTask =
  | { name: 'check'; path: string; limits: ArchiveLimits }
  | { name: 'look'; archives: NeededArchive[]; path: string; from: number; limit: number }
  | { name: 'compare'; archives: NeededArchive[]; limit: number; first: readonly string[] }
  | { name: 'diff'; before: Uint8Array | null; after: Uint8Array | null }

/** A check without the function that a thread cannot send. */
export type PackedCheck = Omit<CheckedZip, 'tree' | 'manifest'> & { manifest: Uint8Array }

/** The result of a task, the error that the client may read, or the archives whose directories the thread needs. */
export type ArchiveReply =
  | { value: PackedCheck | AtPath | ChangedFiles | ReturnType<typeof diffTexts> | null }
  | { refusal: Pick<Refusal, 'errcode' | 'message' | 'status' | 'warning' | 'details'> }
  | { failure: { message: string; code: string | undefined; syscall: string } }
  | { needs: string[] }

/** How many files the lists in memory have together. Each file takes about 250 bytes. */
const maxCachedFiles = 300_000

const lists = new LRUCache<string, readonly ArchiveFile[]>({
  maxSize: maxCachedFiles,
  sizeCalculation: (files) => files.length + 1,
})

/** Runs a task. An error for the client, or of a disk, would lose its members on the way to the main thread. */
export async function runArchiveTask(task: ArchiveTask): Promise<ArchiveReply> {
  try {
    if (task.name === 'check') {
      const { tree: _tree, ...zip } = await checkZip(task.path, task.limits)
      return { value: zip }
    }
    if (task.name === 'diff') return { value: diffTexts(task.before, task.after) }
    const found = await Promise.all(task.archives.map(listFiles))
    const lists = found.filter((files) => files !== null)
    if (lists.length < found.length)
      return { needs: task.archives.flatMap(({ sha256 }, i) => (found[i] ? [] : [sha256])) }
    const [before = [], after = []] = lists.length === 1 ? [[], ...lists] : lists
    if (task.name === 'look') return { value: lookAt(after, task.path, task.from, task.limit) }
    return { value: compareFiles(before, after, task) }
  } catch (error) {
    if (error instanceof Refusal) {
      const { errcode, message, status, warning, details } = error
      return { refusal: { errcode, message, status, warning, details } }
    }
    const { message, code, syscall } = error as NodeJS.ErrnoException
    if (syscall !== undefined) return { failure: { message, code, syscall } }
    throw error
  }
}

/** Returns the files of an archive. A directory is directly followed by its contents. Null when the directory is needed. */
async function listFiles({ sha256, directory }: NeededArchive): Promise<readonly ArchiveFile[] | null> {
  // The name of an archive is its hash, so its list of files never changes.
  const known = lists.get(sha256)
  if (known || directory === null) return known ?? null
  const files = await parsing('its directory', readDirectory(directory))
  lists.set(sha256, files)
  return files
}

async function readDirectory({ bytes, start, size }: DirectoryBytes): Promise<readonly ArchiveFile[]> {
  const options = { decodeStrings: false, validateEntrySizes: false, autoClose: false }
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const reader = new ZipReader(async (from, end) => buffer.subarray(from - start, end - start))
  const zip = await fromRandomAccessReaderPromise(reader, size, options)
  const entries: ArchiveEntry[] = []
  for await (const header of zip.eachEntry()) entries.push(readArchiveEntry(header))
  const root = findPackageRoot(entries)
  const sorted = await sortTree(entries)
  return sorted
    .filter(({ entry: { name } }) => name.startsWith(root) && name.length > root.length)
    .map(({ entry }) => toFile(entry, root))
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

/** Returns the file or link at a path, or a part of the directory. Null when there is nothing. */
function lookAt(files: readonly ArchiveFile[], path: string, from: number, limit: number): AtPath | null {
  const file = files.find((known) => known.path === path && known.kind !== 'directory')
  if (file) return { file }
  const names = listDirectory(files, path)
  return names && { entries: names.slice(from, from + limit), isContinued: names.length > from + limit }
}

/**
 * Lists a directory. Its directories come first. Null when the directory does not exist. '' is the root of the package.
 */
function listDirectory(files: readonly ArchiveFile[], directory: string): DirectoryEntry[] | null {
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

/**
 * Compares two archives by the size and checksum of each file, without reading contents. Ignores directories. The paths `first`
 * come first.
 */
function compareFiles(
  before: readonly ArchiveFile[],
  after: readonly ArchiveFile[],
  { limit, first }: { limit: number; first: readonly string[] },
): ChangedFiles {
  const old = new Map(before.filter(({ kind }) => kind !== 'directory').map((file) => [file.path, file]))
  const [added, changed]: string[][] = [[], []]
  for (const { path, kind, size, crc32 } of after) {
    if (kind === 'directory') continue
    const known = old.get(path)
    old.delete(path)
    if (!known) added?.push(path)
    else if (known.crc32 !== crc32 || known.size !== size || known.kind !== kind) changed?.push(path)
  }
  const firstOnes = new Set(first)
  const cut = (paths: readonly string[] = []) => {
    const ordered = [
      ...first.filter((path) => paths.includes(path)),
      ...paths.filter((path) => !firstOnes.has(path)),
    ]
    return { paths: ordered.slice(0, limit), left: Math.max(paths.length - limit, 0) }
  }
  return { added: cut(added), changed: cut(changed), removed: cut([...old.keys()]) }
}

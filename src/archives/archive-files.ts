import { promisify } from 'node:util'
import { crc32, inflateRaw } from 'node:zlib'
import { fromRandomAccessReaderPromise } from 'yauzl'
import { openReadCache } from '../domain/read-cache.ts'
import { type ArchiveEntry, archiveRefusal, parsing, readArchiveEntry } from './archive-entry.ts'
import type { ArchiveStore } from './archive-store.ts'
import type {
  ArchiveFile,
  ArchiveTask,
  AtPath,
  ChangedFiles,
  DirectoryBytes,
  NeededArchive,
} from './archive-tasks.ts'
import { askArchiveThread, runInArchiveThread } from './archive-threads.ts'
import { findReadme, maxReadmeBytes, type Readme, toReadme } from './archive-tree.ts'
import type { TextDiff } from './text-diff.ts'
import { findDirectory, type ReadBytes, ZipReader } from './zip-directory.ts'
import { inflateEntry } from './zip-entry.ts'

const inflate = promisify(inflateRaw)

/** Reads single files of stored archives. */
export interface ArchiveBrowser {
  /**
   * Returns the file or link at a path, or at most `limit` names of the directory, beginning with the name at the index
   * `from`. Null when there is nothing at the path, and `missing` when the store does not have the archive.
   */
  look: (
    sha256: string,
    path: string,
    part?: { from: number; limit: number },
  ) => Promise<AtPath | null | 'missing'>
  /**
   * Returns the differences between two archives: at most `limit` paths of each kind, and those of `first` before others. Null
   * stands for an archive without files.
   */
  compare: (
    before: string | null,
    after: string,
    part: { limit: number; first?: readonly string[] },
  ) => Promise<ChangedFiles | 'missing'>
  /**
   * Returns the differences between the files or links at a path of two archives. Null when neither has one, and
   * `missing` when the store does not have one of the archives. The archive before can be null, as in `compare`.
   */
  diff: (before: string | null, after: string, path: string) => Promise<FileDiff | null | 'missing'>
  /** Returns the bytes of a file. Null when it is larger than `maxBytes`, or damaged. */
  read: (sha256: string, file: ArchiveFile, maxBytes: number) => Promise<Buffer | null>
}

/** The differences between the files at a path of two archives. */
export interface FileDiff {
  path: string
  /** The sizes of the files in bytes. Null for a file that does not exist. */
  oldSize: number | null
  newSize: number | null
  /** A word tells why there are no lines. */
  lines: TextDiff | 'not text' | 'too large' | 'too different'
}

/** Larger files are not compared. */
const maxComparedBytes = 512 * 1024

/** The size of the results in memory. An archive never changes, because its name is its hash, so neither do they. */
const maxCachedBytes = 16 * 1024 * 1024
/** How many bytes of the directory one request to a bucket reads. The directory of a large archive has 16 MiB. */
const windowBytes = 256 * 1024
/** The maximum size of a directory. Archives of upstreams are not checked like uploads, which have smaller ones. */
const maxDirectoryBytes = 32 * 1024 * 1024
/** More than the end record of a zip, and the longest comment after it. */
const endBytes = 68 * 1024
const localHeaderBytes = 30

/**
 * Opens the reader of single files. It reads only the necessary parts of an archive, also from a bucket. A thread makes
 * the lists of files, because they are long.
 */
export function openArchiveBrowser(store: ArchiveStore): ArchiveBrowser {
  /** Reads the directories of archives that a thread needs. Null when the store does not have one of the archives. */
  async function readDirectories(
    archives: readonly NeededArchive[],
    needs: readonly string[],
  ): Promise<NeededArchive[] | null> {
    const read: NeededArchive[] = []
    for (const archive of archives) {
      const { sha256 } = archive
      const directory = needs.includes(sha256) ? await readDirectory(store, sha256) : null
      if (directory === null && needs.includes(sha256)) return null
      read.push({ sha256, directory })
    }
    return read
  }

  const results = openReadCache<Result, { task: ListTask }>({
    maxSize: maxCachedBytes,
    sizeOf: ({ value }) => JSON.stringify(value).length * 2 + 100,
    async read(_key, { task }) {
      let archives: NeededArchive[] = task.archives
      for (;;) {
        const reply = await askArchiveThread({ ...task, archives })
        if ('value' in reply) return { value: reply.value as Result['value'] }
        const read = await readDirectories(archives, reply.needs)
        // A missing archive may come back, so it is not remembered.
        if (read === null) return undefined
        archives = read
      }
    },
  })

  async function ask<Value>(task: ListTask): Promise<Value | 'missing'> {
    const found = await results.fetch(JSON.stringify(task), { context: { task } })
    return found ? (found.value as Value) : 'missing'
  }

  function look(
    sha256: string,
    path: string,
    { from, limit }: { from: number; limit: number } = { from: 0, limit: 0 },
  ): Promise<AtPath | null | 'missing'> {
    return ask({ name: 'look', archives: [needed(sha256)], path, from, limit })
  }

  /** Compares the files at a path. The key begins with the hashes of the archives. */
  const diffs = openReadCache<FileDiff, { path: string; files: readonly [FileOf | null, FileOf | null] }>({
    maxSize: maxCachedBytes,
    sizeOf: (diff) => JSON.stringify(diff).length * 2,
    async read(_key, { path, files }) {
      const [oldSize, newSize] = files.map((found) => found?.file.size ?? null) as [
        number | null,
        number | null,
      ]
      const about = { path, oldSize, newSize }
      if (Math.max(oldSize ?? 0, newSize ?? 0) > maxComparedBytes) return { ...about, lines: 'too large' }
      const [before, after] = await Promise.all(
        files.map(async (found) =>
          found ? readFile(readerOf(store, found.sha256), found.file, maxComparedBytes) : null,
        ),
      )
      // A file that is there, but cannot be read, is damaged.
      if ((files[0] && !before) || (files[1] && !after)) return { ...about, lines: 'not text' }
      const task = { name: 'diff', before: before ?? null, after: after ?? null } as const
      return { ...about, lines: await runInArchiveThread<FileDiff['lines']>(task) }
    },
  })

  async function diff(
    before: string | null,
    after: string,
    path: string,
  ): Promise<FileDiff | null | 'missing'> {
    const files: (FileOf | null)[] = []
    for (const sha256 of [before, after]) {
      const found = sha256 === null ? null : await look(sha256, path)
      if (found === 'missing') return 'missing'
      files.push(sha256 !== null && found?.file ? { sha256, file: found.file } : null)
    }
    const [old = null, current = null] = files
    if (!old && !current) return null
    const context = { path, files: [old, current] as const }
    return (await diffs.fetch(`${before} ${after} ${path}`, { context })) as FileDiff
  }

  return {
    look,
    compare: (before, after, { limit, first = [] }) =>
      ask<ChangedFiles>({
        name: 'compare',
        archives: [...(before === null ? [] : [needed(before)]), needed(after)],
        limit,
        first,
      }),
    diff,
    read: (sha256, file, maxBytes) => readFile(readerOf(store, sha256), file, maxBytes),
  }
}

const needed = (sha256: string): NeededArchive => ({ sha256, directory: null })

/** A file, and the archive that has it. */
interface FileOf {
  sha256: string
  file: ArchiveFile
}

type ListTask = Exclude<ArchiveTask, { name: 'check' | 'diff' }>

interface Result {
  value: AtPath | ChangedFiles | null
}

function rangeOf(store: ArchiveStore, sha256: string): ReadBytes {
  return async (start, end) => {
    const opened = await store.read(sha256, { start, end: end - 1 })
    return opened ? Buffer.concat(await opened.bytes.toArray()) : Buffer.alloc(0)
  }
}

function readerOf(store: ArchiveStore, sha256: string): ZipReader {
  return new ZipReader(rangeOf(store, sha256), windowBytes)
}

/** Reads the end of an archive, with its directory. Null when the store does not have the archive. */
async function readDirectory(store: ArchiveStore, sha256: string): Promise<DirectoryBytes | null> {
  const stored = await store.stat(sha256)
  if (!stored) return null
  const { size } = stored
  const bytes = rangeOf(store, sha256)
  const found = await parsing('its directory', findDirectory({ size, bytes }))
  const start = Math.min(found.start, Math.max(size - endBytes, 0))
  if (size - start > maxDirectoryBytes) throw archiveRefusal('its directory is too large')
  return { bytes: await bytes(start, size), start, size }
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

import { type FileHandle, open } from 'node:fs/promises'
import { fromRandomAccessReaderPromise, type ZipFile } from 'yauzl'
import type { PackageTree } from '../composer/composer-json.ts'
import { makePause } from '../domain/time-slices.ts'
import {
  type ArchiveEntry,
  archiveRefusal,
  oversizeRefusal,
  parsing,
  quoted,
  readArchiveEntry,
  refuseEscape,
  refuseLongLink,
} from './archive-entry.ts'
import {
  findManifest,
  findPackageRoot,
  findReadme,
  listWarnings,
  maxReadmeBytes,
  type PackedTree,
  packTree,
  type Readme,
  refuseClashes,
  refuseCredentials,
  sortTree,
  toReadme,
  treeOf,
} from './archive-tree.ts'
import { type Directory, findDirectory, ZipReader } from './zip-directory.ts'
import { compareLocalHeader, inflateEntry, refuseUnreadable } from './zip-entry.ts'

/** The limits of an archive. */
export interface ArchiveLimits {
  maxEntries: number
  /** The size of all names and headers together. They are in memory while an archive is checked. */
  maxDirectoryBytes: number
  /** The number of path segments of all names together. Composer must create a directory or file for each. */
  maxPathSegments: number
  maxInflatedBytes: number
  maxManifestBytes: number
}

/** The default limits. */
export const defaultArchiveLimits: Readonly<ArchiveLimits> = {
  maxEntries: 50_000,
  maxDirectoryBytes: 16 * 2 ** 20,
  maxPathSegments: 500_000,
  maxInflatedBytes: 2 ** 30,
  maxManifestBytes: 2 ** 19,
}

/** svc and Composer refuse an archive that inflates to more than 50 MiB and more than 100 times its size. */
const BOMB_RATIO = 100
const BOMB_BYTES = 50 * 2 ** 20

/** The size of a central header without name, extra field and comment. */
const CENTRAL_HEADER_BYTES = 46

/** The facts about a valid archive. */
export interface CheckedZip {
  /** The bytes of composer.json. */
  manifest: Buffer
  /** The path of the manifest: 'composer.json' or 'folder/composer.json'. */
  manifestPath: string
  /** The files of the package, after Composer has unpacked it. */
  tree: PackageTree
  /** The same for another thread. */
  packedTree: PackedTree
  /** The README in the directory of the manifest. Null when there is none. */
  readme: Readme | null
  /** The first file that is only a pointer of Git LFS to its contents. Null when there is none. */
  lfsPointer: string | null
  /** The number of files, directories and links. */
  entryCount: number
  /** The size of all contents, counted while they were inflated. */
  inflatedBytes: number
  /** Warnings for the publisher about files that are allowed, but were probably packed by mistake. */
  warnings: string[]
}

/**
 * Checks whether a zip file is a package that Composer can install, and that every parser reads in the same way.
 * Throws a Refusal that names the wrong entry and the reason. It extracts nothing to disk, and keeps only the
 * directory in memory.
 *
 * Cheap checks run first. The directory alone shows names, kinds and announced sizes. Then each local header is
 * compared with the directory. Only then is every byte inflated and counted.
 */
export async function checkZip(path: string, limits: Partial<ArchiveLimits> = {}): Promise<CheckedZip> {
  const file = await open(path, 'r')
  try {
    return await checkFile(file, { ...defaultArchiveLimits, ...limits })
  } finally {
    await file.close()
  }
}

async function checkFile(file: FileHandle, limits: ArchiveLimits): Promise<CheckedZip> {
  const directory = await findDirectory(file)
  refuseLongDirectory(directory, limits)
  // yauzl must not decode names or check sizes, because our own checks can name the wrong entry. Without autoClose, the
  // caller closes the file.
  const options = { decodeStrings: false, validateEntrySizes: false, autoClose: false }
  const reader = new ZipReader(file)
  const { size } = await file.stat()
  const zip = await parsing('its end record', fromRandomAccessReaderPromise(reader, size, options))
  const entries = await readDirectory(zip, directory, limits)
  refuseBomb(entries, size, limits)

  const sorted = await sortTree(entries)
  refuseClashes(sorted)
  const root = findPackageRoot(entries)
  const manifest = findManifest(entries, root)
  if (manifest.header.uncompressedSize > limits.maxManifestBytes) {
    throw oversizeRefusal(`composer.json has more than ${limits.maxManifestBytes} bytes`)
  }
  refuseCredentials(entries, root)

  await compareLocalHeaders(zip, reader, entries, directory)
  const contents = await readContents(zip, reader, entries, manifest, root)
  const warnings = await listWarnings(entries, root)
  const packedTree = packTree(sorted, root)
  const tree = treeOf(packedTree)
  return { ...contents, manifestPath: manifest.name, tree, packedTree, entryCount: entries.length, warnings }
}

function refuseLongDirectory({ entryCount, start, end }: Directory, limits: ArchiveLimits): void {
  if (entryCount === 0) throw archiveRefusal('it is empty')
  if (entryCount > limits.maxEntries) {
    throw oversizeRefusal(`it has ${entryCount} entries, but at most ${limits.maxEntries} are allowed`)
  }
  if (end - start > limits.maxDirectoryBytes) {
    throw oversizeRefusal(`its directory has more than ${limits.maxDirectoryBytes} bytes`)
  }
}

async function readDirectory(
  zip: ZipFile,
  { start, end }: Directory,
  { maxPathSegments }: ArchiveLimits,
): Promise<ArchiveEntry[]> {
  const pause = makePause()
  const entries: ArchiveEntry[] = []
  let segments = 0
  let at = start
  const headers = zip.eachEntry()
  for (;;) {
    const { done, value: header } = await parsing(`directory entry ${entries.length + 1}`, headers.next())
    if (done) break
    const entry = readArchiveEntry(header)
    refuseUnreadable(header, entry.name)
    refuseLongLink(entry)
    segments += entry.name.split('/').length
    if (segments > maxPathSegments) {
      throw oversizeRefusal(
        `up to ${quoted(entry.name)} its paths have more than ${maxPathSegments} segments`,
      )
    }
    entries.push(entry)
    await pause()
    at += CENTRAL_HEADER_BYTES + header.fileNameLength + header.extraFieldLength + header.fileCommentLength
  }
  if (at !== end) throw archiveRefusal('the size of its directory is not the size of its entries')
  return entries
}

/** Checks the sizes in the headers. Inflating later checks that no entry is larger than its header says. */
function refuseBomb(
  entries: ArchiveEntry[],
  archiveBytes: number,
  { maxInflatedBytes }: ArchiveLimits,
): void {
  const inflatedBytes = entries.reduce((sum, { header }) => sum + header.uncompressedSize, 0)
  if (inflatedBytes > maxInflatedBytes) {
    throw oversizeRefusal(`it unpacks to ${inflatedBytes} bytes, but at most ${maxInflatedBytes} are allowed`)
  }
  if (inflatedBytes > BOMB_BYTES && inflatedBytes > archiveBytes * BOMB_RATIO) {
    throw oversizeRefusal(`it unpacks to ${inflatedBytes} bytes, more than ${BOMB_RATIO} times its size`)
  }
}

async function compareLocalHeaders(
  zip: ZipFile,
  reader: ZipReader,
  entries: ArchiveEntry[],
  directory: Directory,
) {
  const inOrder = entries.toSorted(
    (a, b) => a.header.relativeOffsetOfLocalHeader - b.header.relativeOffsetOfLocalHeader,
  )
  const junkBytes = inOrder[0]?.header.relativeOffsetOfLocalHeader ?? 0
  if (junkBytes > 0) throw archiveRefusal(`${junkBytes} bytes precede its first entry`)
  const pause = makePause()
  for (const [i, entry] of inOrder.entries()) {
    await pause()
    const limit = inOrder[i + 1]?.header.relativeOffsetOfLocalHeader ?? directory.start
    await compareLocalHeader(zip, reader, entry, limit)
  }
}

/** Inflates all entries. Of their contents it keeps only the manifest and the beginning of the README. */
async function readContents(
  zip: ZipFile,
  reader: ZipReader,
  entries: ArchiveEntry[],
  manifestEntry: ArchiveEntry,
  root: string,
) {
  const readmeEntry = findReadme(entries, root)
  let readme: Readme | null = null
  let manifest = Buffer.alloc(0)
  let lfsPointer: string | null = null
  let inflatedBytes = 0
  let readmeBytes = 0
  for (const entry of entries) {
    const kept: Buffer[] = []
    for await (const chunk of inflateEntry(zip, reader, entry)) {
      inflatedBytes += chunk.length
      if (isLfsPointer(entry, chunk)) lfsPointer ??= entry.name
      if (entry === manifestEntry || entry.kind === 'link') kept.push(chunk)
      if (entry === readmeEntry && readmeBytes < maxReadmeBytes) {
        kept.push(chunk)
        readmeBytes += chunk.length
      }
    }
    if (entry === readmeEntry) readme = toReadme(entry, kept)
    if (entry === manifestEntry) manifest = Buffer.concat(kept)
    if (entry.kind === 'link') refuseEscape(entry, Buffer.concat(kept), root)
  }
  return { manifest, readme, lfsPointer, inflatedBytes }
}

/** Returns whether a file is a pointer of Git LFS. It has at most 1 KiB, so it comes as one chunk. */
function isLfsPointer({ kind, header }: ArchiveEntry, chunk: Buffer): boolean {
  if (kind !== 'file' || header.uncompressedSize > 1024) return false
  return /^version https:\/\/git-lfs\.github\.com\/spec\/v1\r?\n/.test(chunk.toString('latin1', 0, 50))
}

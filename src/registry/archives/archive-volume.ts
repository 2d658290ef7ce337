import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, opendir, rename, rm, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { errcode, RegistryError } from '../errors.ts'

/*
 * Archives on a local volume, named by the SHA-256 of their bytes, so that what is there never changes:
 *
 *   tmp/<random>                     being received, or being removed
 *   archives/<2 hex>/<sha256>.zip    kept
 *
 * Several processes may share the volume. No lock is held: each change of name is one atomic `rename`, and two who
 * keep the same archive at once replace equal bytes by equal bytes.
 *
 * What is on disk after a kill -9 or a power cut:
 *   while receiving            a part of the body in tmp/, which nobody names
 *   received, not yet kept     the whole body in tmp/, which nobody names
 *   kept, not yet in the database    an archive that no version names; an upload repeated finds it there
 *   in the database            the archive: its bytes were synced before its name, its name before keepArchive answered
 * So nothing acknowledged is lost, and garbage alone is left. Who collects it takes what no version names and what
 * nobody has touched for a day: the time between receiving and the database is minutes, and keepArchive touches
 * what it finds.
 */

/** Where archives are kept. */
export interface ArchiveVolume {
  readonly directory: string
}

/** A body that was received whole, and is not yet kept. */
export interface ReceivedArchive {
  /** The temporary file. */
  path: string
  /** Lower-case hex. */
  sha256: string
  /** Lower-case hex; Composer checks it (`dist.shasum`). */
  sha1: string
  size: number
}

/** An archive, or a temporary file, as it lies on the volume. */
export interface StoredFile {
  path: string
  size: number
  /** When it was last written, or asked to be kept. */
  touchedAt: Date
}

/** A kept archive. */
export interface StoredArchive extends StoredFile {
  sha256: string
}

/** Opens a volume, and makes its two directories where they are missing. */
export async function openArchiveVolume(directory: string): Promise<ArchiveVolume> {
  await mkdir(join(directory, 'archives'), { recursive: true })
  await mkdir(join(directory, 'tmp'), { recursive: true })
  await syncDirectory(directory)
  return { directory }
}

/**
 * Streams a body into a temporary file, as fast as the disk takes it, and syncs it. A body over the limit is
 * refused with 413, an aborted one throws its own error; both leave nothing behind. The stream itself is left
 * alone: it may be the socket that the refusal has to travel on.
 */
export async function receiveArchive(
  { directory }: ArchiveVolume,
  body: Readable,
  { maxBytes }: { maxBytes: number },
): Promise<ReceivedArchive> {
  // The loop below hears of an error. One that comes before the loop must not go unheard either: it would end the process.
  body.on('error', () => {})
  const path = join(directory, 'tmp', randomUUID())
  const file = await open(path, 'wx', 0o640)
  try {
    const sha256 = createHash('sha256')
    const sha1 = createHash('sha1')
    let size = 0
    for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxBytes) throw tooLarge(maxBytes)
      sha256.update(chunk)
      sha1.update(chunk)
      await file.writeFile(chunk)
    }
    await file.sync()
    return { path, sha256: sha256.digest('hex'), sha1: sha1.digest('hex'), size }
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await file.close()
  }
}

/**
 * Keeps a received archive under its hash; afterwards a crash loses neither bytes nor name. Answers how: it was
 * `new`, was `known` and is touched, or replaced a file of another size, which can only be a `damaged` one.
 */
export async function keepArchive(
  volume: ArchiveVolume,
  received: ReceivedArchive,
): Promise<'new' | 'known' | 'damaged'> {
  const path = archivePath(volume, received.sha256)
  const shard = join(path, '..')
  await mkdir(shard, { recursive: true })
  const found = await touch(path)
  if (found?.size === received.size) {
    await rm(received.path, { force: true })
  } else {
    await rename(received.path, path)
  }
  // Known archives too: whoever brought the name here may not have come to sync it yet.
  await syncDirectory(shard)
  await syncDirectory(join(shard, '..'))
  if (!found) return 'new'
  return found.size === received.size ? 'known' : 'damaged'
}

/** Removes a temporary file, if it is still there. */
export async function discardArchive({ path }: Pick<ReceivedArchive, 'path'>): Promise<void> {
  await rm(path, { force: true })
}

/** An archive for reading, and its size in bytes; null when it is not there. The caller closes the handle. */
export async function openArchive(
  volume: ArchiveVolume,
  sha256: string,
): Promise<{ file: FileHandle; size: number } | null> {
  const file = await unlessMissing(open(archivePath(volume, sha256), 'r'))
  if (!file) return null
  try {
    return { file, size: (await file.stat()).size }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** What lies there under a hash; null when nothing does. */
export async function statArchive(volume: ArchiveVolume, sha256: string): Promise<StoredArchive | null> {
  const stored = await statFile(archivePath(volume, sha256))
  return stored && { ...stored, sha256 }
}

/** Whether an archive's bytes still are what its name says; null when it is not there. */
export async function verifyArchive(volume: ArchiveVolume, sha256: string): Promise<boolean | null> {
  const archive = await openArchive(volume, sha256)
  if (!archive) return null
  const hash = createHash('sha256')
  for await (const chunk of archive.file.createReadStream({ highWaterMark: 2 ** 18 })) hash.update(chunk)
  return hash.digest('hex') === sha256
}

/** All kept archives, in no order. What comes or goes meanwhile may be missed. */
export async function* listArchives(volume: ArchiveVolume): AsyncGenerator<StoredArchive, void, void> {
  const archives = join(volume.directory, 'archives')
  for await (const shard of await opendir(archives)) {
    if (!/^[0-9a-f]{2}$/.test(shard.name)) continue
    for await (const { name } of await opendir(join(archives, shard.name))) {
      const sha256 = /^([0-9a-f]{64})\.zip$/.exec(name)?.[1]
      const stored = sha256?.startsWith(shard.name) ? await statArchive(volume, sha256) : null
      if (stored) yield stored
    }
  }
}

/** All temporary files, in no order: of uploads under way, and of those that a crash ended. */
export async function* listTemporaryFiles({
  directory,
}: ArchiveVolume): AsyncGenerator<StoredFile, void, void> {
  for await (const { name } of await opendir(join(directory, 'tmp'))) {
    const stored = await statFile(join(directory, 'tmp', name))
    if (stored) yield stored
  }
}

/**
 * Removes an archive that nobody has touched since a moment: the collector says a day ago, a purge says now.
 * Answers whether it is gone.
 *
 * The race is with a publisher who finds the archive and relies on it. So it is moved away first: who comes later
 * brings a copy of his own, and who came before has left his touch on what we hold, which then goes back. Only a
 * crash between those two renames would leave the archive in tmp/, where it still has a day.
 */
export async function removeArchive(
  volume: ArchiveVolume,
  sha256: string,
  untouchedSince: Date,
): Promise<boolean> {
  const path = archivePath(volume, sha256)
  const before = await statFile(path)
  if (!before) return true
  if (before.touchedAt > untouchedSince) return false
  const away = join(volume.directory, 'tmp', randomUUID())
  await unlessMissing(rename(path, away))
  const held = await statFile(away)
  if (held && held.touchedAt > untouchedSince) {
    await rename(away, path)
    return false
  }
  await rm(away, { force: true })
  return true
}

/** Marks a file as wanted. Null when there is none. */
async function touch(path: string): Promise<StoredFile | null> {
  const now = new Date()
  await unlessMissing(utimes(path, now, now))
  return statFile(path)
}

async function statFile(path: string): Promise<StoredFile | null> {
  const found = await unlessMissing(stat(path))
  return found && { path, size: found.size, touchedAt: found.mtime }
}

/** The only way from a hash to a path. */
function archivePath({ directory }: ArchiveVolume, sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new RangeError('not a SHA-256 in lower-case hex')
  return join(directory, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
}

/** Makes the names in a directory survive a power cut. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

async function unlessMissing<T>(happening: Promise<T>): Promise<T | null> {
  try {
    return await happening
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

function tooLarge(maxBytes: number): RegistryError {
  return new RegistryError(errcode.resourceExhausted, `archive too large: more than ${maxBytes} bytes`, {
    status: 413,
  })
}

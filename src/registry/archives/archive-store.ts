import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, open, opendir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { errcode, RegistryError } from '../errors.ts'

/*
 * Where archives are: on a volume (`local-store.ts`) or in a bucket (`s3-store.ts`). They are named by the SHA-256 of
 * their bytes, so what is there never changes. An upload is always received on local disk first:
 *
 *   tmp/<random>                     being received, or being removed
 *   archives/<2 hex>/<sha256>.zip    kept, below DATA_DIR or below the prefix of the bucket
 *
 * Several processes may share a store. What is there after a kill -9 or a power cut:
 *   while receiving            a part of the body in tmp/, which nobody names
 *   received, not yet kept     the whole body in tmp/, which nobody names
 *   kept, not yet in the database    an archive that no version names; an upload repeated finds it there
 *   in the database            the archive: its bytes were stored durably before it was named
 * So nothing acknowledged is lost, and garbage alone is left. A collection removes what no version names and what
 * nobody has touched for a day: the time between receiving and the database is minutes, and `keep` touches what it finds.
 */

/** The local folder of an installation: DATA_DIR. Its `tmp/` receives uploads, whatever the store. */
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

/** A file and when it was last wanted. */
export interface StoredFile {
  path: string
  size: number
  /** When it was last written, or asked to be kept. */
  touchedAt: Date
}

/** A kept archive. */
export interface StoredArchive extends Omit<StoredFile, 'path'> {
  sha256: string
}

/** What a URL to an archive is for. */
export interface ArchiveLink {
  method: 'GET' | 'HEAD'
  fileName: string
}

/** Keeps archives. Every method throws a `RangeError` for what is no SHA-256 in lower-case hex. */
export interface ArchiveStore extends ArchiveVolume {
  /** What messages call it: a path or a URL. */
  readonly place: string
  /**
   * Keeps a received archive under its hash, durably. The temporary file may be gone then; `discardArchive` it anyway.
   * Returns how: it was `new`, was `known` and is touched, or replaced one of another size, which can only be `damaged`.
   */
  keep(received: ReceivedArchive): Promise<'new' | 'known' | 'damaged'>
  /** Opens an archive, or the bytes from `start` to `end` of it, both included. Null when it is missing. */
  read(sha256: string, range?: { start: number; end: number }): Promise<OpenArchive | null>
  /** Opens an archive as a local file. Null when it is missing. The caller closes it. */
  openFile(sha256: string): Promise<{ file: FileHandle; size: number } | null>
  /** Returns null when it is missing. */
  stat(sha256: string): Promise<StoredArchive | null>
  /** All archives, in no order. What is added or removed meanwhile may be missed. */
  list(): AsyncGenerator<StoredArchive, void, void>
  /** Removes an archive that nobody has touched since a moment. Returns whether it is gone. */
  remove(sha256: string, untouchedSince: Date): Promise<boolean>
  /** Whether clients get archives by links to the store. Else this process sends them. */
  readonly isLinked: boolean
  /** A URL where a client gets the archive itself, for 15 minutes. */
  link(sha256: string, link: ArchiveLink): Promise<string>
  /** The id of the database that the store belongs to; null when it carries none. */
  readOwner(): Promise<string | null>
  /** Writes the id, unless the store carries one. */
  writeOwner(databaseId: string): Promise<void>
}

/** An archive that is being read. */
export interface OpenArchive {
  /** Of the whole archive, in bytes. */
  size: number
  bytes: Readable
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
 * Makes sure that an archive which the database names is there: a collection may have removed a bucket's copy in the
 * moment before it was named. From then on no collection does. The temporary file must still be there if the store is a
 * bucket.
 */
export async function keepNamedArchive(store: ArchiveStore, received: ReceivedArchive): Promise<void> {
  if ((await store.stat(received.sha256)) === null) await store.keep(received)
}

/** Removes a temporary file, if it is still there. */
export async function discardArchive({ path }: Pick<ReceivedArchive, 'path'>): Promise<void> {
  await rm(path, { force: true })
}

/** Whether an archive's bytes still are what its name says. Null when it is missing. */
export async function verifyArchive(store: ArchiveStore, sha256: string): Promise<boolean | null> {
  const archive = await store.read(sha256)
  if (!archive) return null
  const hash = createHash('sha256')
  for await (const chunk of archive.bytes as AsyncIterable<Buffer>) hash.update(chunk)
  return hash.digest('hex') === sha256
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

/** Returns size and time of a file; null when it is missing. */
export async function statFile(path: string): Promise<StoredFile | null> {
  const found = await unlessMissing(stat(path))
  return found && { path, size: found.size, touchedAt: found.mtime }
}

/** Returns null for a file that is missing. */
export async function unlessMissing<T>(happening: Promise<T>): Promise<T | null> {
  try {
    return await happening
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

/** The only way from a hash to a name: `<2 hex>/<sha256>.zip`. */
export function archiveName(sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new RangeError('not a SHA-256 in lower-case hex')
  return `${sha256.slice(0, 2)}/${sha256}.zip`
}

/** Reads `<2 hex>/<sha256>.zip`. Null for any other name. */
export function readArchiveName(name: string): string | null {
  const [, shard = '', sha256 = ''] = /^([0-9a-f]{2})\/([0-9a-f]{64})\.zip$/.exec(name) ?? []
  return shard !== '' && sha256.startsWith(shard) ? sha256 : null
}

function tooLarge(maxBytes: number): RegistryError {
  return new RegistryError(errcode.resourceExhausted, `archive too large: more than ${maxBytes} bytes`, {
    status: 413,
  })
}

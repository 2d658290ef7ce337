import { createHash, randomUUID } from 'node:crypto'
import {
  link,
  mkdir,
  open,
  opendir,
  readFile,
  rename,
  rm,
  stat as statPath,
  unlink,
  utimes,
} from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { measureDisk } from '../domain/disk-space.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import type {
  ArchiveStore,
  ArchiveVolume,
  ReceivedArchive,
  StoredArchive,
  StoredFile,
} from './archive-store.ts'

/** Gets the path of a temporary file and the number of bytes that it has now. */
type OnWritten = (path: string, size: number) => Promise<void>

interface ReceiveOptions {
  maxBytes: number
  /** The size that the sender announces. Null when it is not known. */
  size?: number | null
  onWritten?: OnWritten
}

/** After this number of received bytes, there must be free space for as many again. */
const checkedBytes = 4 * 1024 ** 2

/** Up to this size, the bytes of a received archive also stay in memory until it is kept. */
const smallBytes = 64 * 1024

/**
 * Streams a body into a temporary file and syncs it. Waits for `onWritten` after each chunk. Throws 413 for a body over
 * the limit, 507 when the disk would have less free space than its reserve, 503 when the disk cannot be written, and the
 * stream's error for an aborted body. All leave no file behind. With a `size` over the limit, it reads nothing. The stream
 * is not destroyed, because it may be the socket that sends the error response.
 */
export async function receiveArchive(
  volume: ArchiveVolume,
  body: Readable,
  options: ReceiveOptions,
): Promise<ReceivedArchive> {
  return writing(() => receive(volume, body, options))
}

async function receive(
  volume: ArchiveVolume,
  body: Readable,
  { maxBytes, size: announced = null, onWritten }: ReceiveOptions,
): Promise<ReceivedArchive> {
  // The loop below handles errors. An error before the loop needs a listener too, because without one it would end the
  // process.
  body.on('error', () => {})
  if (announced !== null && announced > maxBytes) throw tooLarge(maxBytes, announced)
  await requireFreeSpace(volume, announced ?? checkedBytes)
  const path = join(volume.directory, 'tmp', randomUUID())
  const file = await open(path, 'wx', 0o640)
  try {
    const sha256 = createHash('sha256')
    const sha1 = createHash('sha1')
    let size = 0
    let chunks: Buffer[] = []
    let checked = 0
    for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxBytes) throw tooLarge(maxBytes)
      if (size - checked >= checkedBytes) {
        await requireFreeSpace(volume, checkedBytes)
        checked = size
      }
      sha256.update(chunk)
      sha1.update(chunk)
      if (size <= smallBytes) chunks.push(chunk)
      else chunks = []
      await file.writeFile(chunk)
      await onWritten?.(path, size)
    }
    await file.sync()
    const bytes = size <= smallBytes ? Buffer.concat(chunks) : null
    return { path, sha256: sha256.digest('hex'), sha1: sha1.digest('hex'), size, bytes }
  } catch (error) {
    await rm(path, { force: true })
    throw error
  } finally {
    await file.close()
  }
}

/** Removes the temporary file if it still exists. */
export async function discardArchive({ path }: Pick<ReceivedArchive, 'path'>): Promise<void> {
  await writing(() => unlessMissing(unlink(path)))
}

/** The codes of a disk that cannot be written: it is read-only, has wrong permissions, is damaged, or is not mounted. */
const unwritable = new Set(['EROFS', 'EACCES', 'EPERM', 'EIO', 'ESTALE', 'ENOENT'])

/** Writes files. Throws 507 when the disk is full, and 503 when it cannot be written. */
export async function writing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    const { code = '' } = cause as NodeJS.ErrnoException
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      const options = { status: 507, cause }
      throw new Refusal(errcode.resourceExhausted, 'no space left for archives', options)
    }
    if (!unwritable.has(code)) throw cause
    const warning = 'The server cannot write its archives at the moment. Its log says why. Try again later.'
    throw new Refusal(errcode.unavailable, 'the archive store cannot be written', { warning, cause })
  }
}

/**
 * The file with the database id. It is in the folder of the archives, so it is missing when that folder is not mounted.
 */
const ownerFile = 'database-id'
/** The file with the claim of the database, beside the one with its id. */
const claimFile = 'claim'
/** The number of bytes that are read at once. */
const oneReadBytes = 256 * 1024

/**
 * Opens the archive store in a folder, and creates missing folders. It needs no lock. Each `rename` is atomic, and two
 * processes that keep the same archive replace it with equal bytes.
 */
export async function openLocalStore(directory: string, reserveBytes = 0): Promise<ArchiveStore> {
  const archives = join(directory, 'archives')
  await mkdir(archives, { recursive: true })
  await mkdir(join(directory, 'tmp'), { recursive: true })
  await syncDirectory(directory)
  const pathOf = (sha256: string) => join(archives, archiveName(sha256))
  const ownerPath = join(archives, ownerFile)
  const claimPath = join(archives, claimFile)
  /** The folders below `archives` whose names this process has synced. */
  const syncedShards = new Set<string>()

  async function stat(sha256: string): Promise<StoredArchive | null> {
    const stored = await statFile(pathOf(sha256))
    return stored && { sha256, size: stored.size, touchedAt: stored.touchedAt }
  }

  async function openFile(sha256: string) {
    const file = await unlessMissing(open(pathOf(sha256), 'r'))
    if (!file) return null
    try {
      return { file, size: (await file.stat()).size }
    } catch (error) {
      await file.close()
      throw error
    }
  }

  return {
    directory,
    reserveBytes,
    place: directory,
    bucket: null,
    copyFrom: async () => null,
    stat,
    openFile,
    keep: (received) =>
      writing(async () => {
        const path = pathOf(received.sha256)
        const found = await touch(path)
        if (found?.size !== received.size) await moveFile(received.path, path)
        await syncName(path, syncedShards)
        if (!found) return 'new'
        return found.size === received.size ? 'known' : 'damaged'
      }),
    replace: (received) =>
      writing(async () => {
        const path = pathOf(received.sha256)
        await moveFile(received.path, path)
        await syncName(path, syncedShards)
      }),
    async has({ sha256, size }) {
      return (await stat(sha256))?.size === size
    },
    async read(sha256, range = { start: 0, end: Number.POSITIVE_INFINITY }) {
      const opened = await openFile(sha256)
      if (!opened) return null
      const bytes: Readable = opened.file.createReadStream({ ...range, highWaterMark: oneReadBytes })
      return { size: opened.size, bytes }
    },
    async *list() {
      for await (const shard of await opendir(archives)) {
        if (!/^[0-9a-f]{2}$/.test(shard.name)) continue
        for await (const { name } of await opendir(join(archives, shard.name))) {
          const sha256 = readArchiveName(`${shard.name}/${name}`)
          const stored = sha256 === null ? null : await stat(sha256)
          if (stored) yield stored
        }
      }
    },
    remove: async (sha256, untouchedSince) => removeFile(pathOf(sha256), directory, untouchedSince),
    isLinked: false,
    async link() {
      throw new Error('Archives of a folder have no links.')
    },
    readOwner: async () => (await unlessMissing(readFile(ownerPath, 'utf8')))?.trim() ?? null,
    writeOwner: (databaseId) =>
      writeSynced(directory, `${databaseId}\n`, (temporary) => nameOnce(temporary, ownerPath)),
    readClaim: () => unlessMissing(readFile(claimPath, 'utf8')),
    writeClaim: (text) => writeSynced(directory, text, (temporary) => rename(temporary, claimPath)),
  }
}

/** Moves a received archive to its path. */
async function moveFile(from: string, path: string): Promise<void> {
  const isMoved = await unlessMissing(rename(from, path).then(() => true))
  if (isMoved) return
  // This is the first archive of the folder.
  await mkdir(join(path, '..'), { recursive: true })
  await rename(from, path)
}

/**
 * Syncs the name of an archive, so that it survives a crash. Also do that for known archives, because the process that
 * moved the file there may not have synced the directory yet.
 */
async function syncName(path: string, syncedShards: Set<string>): Promise<void> {
  const shard = join(path, '..')
  await syncDirectory(shard)
  if (syncedShards.has(shard)) return
  await syncDirectory(join(shard, '..'))
  syncedShards.add(shard)
}

/**
 * Removes a file, although publishers may find the archive at the same time and rely on it. It first moves the file
 * away. A publisher that comes later stores a new copy. A publisher that came earlier has touched the file, so the file
 * is moved back. A crash between the two renames leaves the archive in tmp/, where it is kept for a day.
 */
async function removeFile(path: string, directory: string, untouchedSince: Date): Promise<boolean> {
  const before = await statFile(path)
  if (!before) return true
  if (before.touchedAt > untouchedSince) return false
  const away = join(directory, 'tmp', randomUUID())
  await unlessMissing(rename(path, away))
  const held = await statFile(away)
  if (held && held.touchedAt > untouchedSince) {
    await rename(away, path)
    return false
  }
  await rm(away, { force: true })
  return true
}

/** Writes and syncs a temporary file, which `name` gives its final name. */
async function writeSynced(
  directory: string,
  text: string,
  name: (temporary: string) => Promise<void>,
): Promise<void> {
  const temporary = join(directory, 'tmp', randomUUID())
  try {
    const file = await open(temporary, 'wx', 0o640)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await name(temporary)
  } finally {
    await rm(temporary, { force: true })
  }
}

/** Gives a file its name, unless that exists. */
async function nameOnce(temporary: string, path: string): Promise<void> {
  try {
    // Use a link: unlike a rename, it never replaces a file that another process has just written.
    await link(temporary, path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Some network volumes do not support links.
    if (code === 'EPERM' || code === 'ENOTSUP' || code === 'ENOSYS') await rename(temporary, path)
    else if (code !== 'EEXIST') throw error
  }
}

/** Sets the time of a file to now. Returns null when the file is missing. */
async function touch(path: string): Promise<StoredFile | null> {
  const now = new Date()
  const isThere = await unlessMissing(utimes(path, now, now).then(() => true))
  return isThere === null ? null : statFile(path)
}

/** Syncs a directory, so that its file names survive a power cut. */
async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** Lists all temporary files, in no order. They belong to running uploads and to uploads that a crash interrupted. */
export async function* listTemporaryFiles({
  directory,
}: ArchiveVolume): AsyncGenerator<StoredFile, void, void> {
  for await (const { name } of await opendir(join(directory, 'tmp'))) {
    const stored = await statFile(join(directory, 'tmp', name))
    if (stored) yield stored
  }
}

/** Returns the size and time of a file. Null when it is missing. */
async function statFile(path: string): Promise<StoredFile | null> {
  const found = await unlessMissing(statPath(path))
  return found && { path, size: found.size, touchedAt: found.mtime }
}

/** Returns the result of a file operation. Null when the file is missing. */
async function unlessMissing<T>(happening: Promise<T>): Promise<T | null> {
  try {
    return await happening
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return null
    throw error
  }
}

/** Returns the name of an archive: `<2 hex>/<sha256>.zip`. No other code builds such names. */
export function archiveName(sha256: string): string {
  if (!/^[0-9a-f]{64}$/.test(sha256)) throw new RangeError('not a SHA-256 in lower-case hex')
  return `${sha256.slice(0, 2)}/${sha256}.zip`
}

/** Returns the hash in the name `<2 hex>/<sha256>.zip`. Null for any other name. */
export function readArchiveName(name: string): string | null {
  const [, shard = '', sha256 = ''] = /^([0-9a-f]{2})\/([0-9a-f]{64})\.zip$/.exec(name) ?? []
  return shard !== '' && sha256.startsWith(shard) ? sha256 : null
}

/** Throws 507 when this number of bytes would leave less free space on the disk than the reserve. */
async function requireFreeSpace({ directory, reserveBytes }: ArchiveVolume, bytes: number): Promise<void> {
  if (reserveBytes === 0) return
  const disk = await measureDisk(directory)
  if (disk === null || disk.freeBytes - bytes >= reserveBytes) return
  throw new Refusal(errcode.resourceExhausted, 'no space left for archives', {
    status: 507,
    warning: `The disk of the server has ${disk.freeBytes} bytes left, and ${reserveBytes} of them are a reserve. Only its operator can change this.`,
  })
}

function tooLarge(maxBytes: number, size: number | null = null): Refusal {
  const limit = `more than ${maxBytes} bytes`
  if (size === null)
    return new Refusal(errcode.resourceExhausted, `archive too large: ${limit}`, { status: 413 })
  return new Refusal(errcode.resourceExhausted, `archive too large: ${size} bytes, which is ${limit}`, {
    status: 413,
    warning: `The archive has ${size} bytes, and this registry accepts at most ${maxBytes}.`,
  })
}

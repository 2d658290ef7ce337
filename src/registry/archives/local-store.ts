import { randomUUID } from 'node:crypto'
import { link, mkdir, open, opendir, readFile, rename, rm, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import {
  type ArchiveStore,
  archiveName,
  type ReceivedArchive,
  readArchiveName,
  type StoredArchive,
  type StoredFile,
  statFile,
  unlessMissing,
} from './archive-store.ts'

/** In the folder of the archives, so that it is missing when that folder is a mount that is not there. */
export const ownerFile = 'database-id'
/** How much of an archive is read at once. */
const oneReadBytes = 256 * 1024

/**
 * Opens the archives of a folder, and makes what is missing of it. No lock is held: each change of name is one atomic
 * `rename`, and two processes that keep the same archive at once replace equal bytes by equal bytes.
 */
export async function openLocalStore(directory: string): Promise<ArchiveStore> {
  const archives = join(directory, 'archives')
  await mkdir(archives, { recursive: true })
  await mkdir(join(directory, 'tmp'), { recursive: true })
  await syncDirectory(directory)
  const pathOf = (sha256: string) => join(archives, archiveName(sha256))
  const ownerPath = join(archives, ownerFile)

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
    place: directory,
    stat,
    openFile,
    keep: async (received) => keepFile(received, pathOf(received.sha256)),
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
    writeOwner: (databaseId) => writeOnce(ownerPath, directory, `${databaseId}\n`),
  }
}

/** Afterwards a crash loses neither bytes nor name. */
async function keepFile(received: ReceivedArchive, path: string): Promise<'new' | 'known' | 'damaged'> {
  const shard = join(path, '..')
  await mkdir(shard, { recursive: true })
  const found = await touch(path)
  if (found?.size === received.size) {
    await rm(received.path, { force: true })
  } else {
    await rename(received.path, path)
  }
  // Known archives too: the process that brought the name here may not have synced it yet.
  await syncDirectory(shard)
  await syncDirectory(join(shard, '..'))
  if (!found) return 'new'
  return found.size === received.size ? 'known' : 'damaged'
}

/**
 * The race is with a publisher who finds the archive and relies on it. So it is moved away first: who comes later
 * brings a copy of his own, and who came before has left his touch on what we hold, which then goes back. Only a
 * crash between those two renames would leave the archive in tmp/, where it still has a day.
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

/** Writes a file, whole and synced, unless there is one. */
async function writeOnce(path: string, directory: string, text: string): Promise<void> {
  const temporary = join(directory, 'tmp', randomUUID())
  try {
    const file = await open(temporary, 'wx', 0o640)
    try {
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    // Unlike a rename, a link never replaces what another process has just written.
    await link(temporary, path)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Some network volumes have no links.
    if (code === 'EPERM' || code === 'ENOTSUP' || code === 'ENOSYS') await rename(temporary, path)
    else if (code !== 'EEXIST') throw error
  } finally {
    await rm(temporary, { force: true })
  }
}

/** Marks a file as wanted. Returns null when there is none. */
async function touch(path: string): Promise<StoredFile | null> {
  const now = new Date()
  await unlessMissing(utimes(path, now, now))
  return statFile(path)
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

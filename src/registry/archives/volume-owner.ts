import { randomUUID } from 'node:crypto'
import { link, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import { findDatabaseId } from '../../database/installation.ts'
import { isMigrated } from '../../database/migrate.ts'
import { findNewestArchive, isAnyArchiveKnown } from '../tables/archives.ts'
import { type ArchiveVolume, listArchives, openArchiveVolume, statArchive } from './archive-volume.ts'

/** In the folder of the archives, so that it is missing when that folder is a mount that is not there. */
const fileName = 'database-id'
/** So many archives of a volume without an id are looked up in the database. */
const sampleSize = 1000

/**
 * Opens the archive volume of this database. The server calls it at its start, and each command that reads or changes
 * the volume. A volume carries the id of its database. One without an id gets it when it is empty, or when the database
 * knows archives on it. Throws when the volume belongs to another database.
 */
export async function openOwnVolume(db: Queryable, directory: string): Promise<ArchiveVolume> {
  const volume = await openArchiveVolume(directory)
  const databaseId = await findDatabaseId(db)
  const found = (await readOwner(volume)) ?? (await adoptVolume(db, volume, databaseId))
  if (found !== databaseId) {
    throw new Error(
      `The archives in ${directory} belong to the database with the id ${found}, but this database has the id ${databaseId}. Check DATABASE_URL and DATA_DIR.`,
    )
  }
  return volume
}

/** Throws when the database is empty, and the volume carries the id of another one. Call it before the first migration. */
export async function refuseEmptyDatabase(db: pg.Pool, directory: string): Promise<void> {
  // In this order: another process may migrate the database and mark the volume at the same time.
  const found = await readOwner({ directory })
  if (found === null || (await isMigrated(db))) return
  throw new Error(
    `The archives in ${directory} belong to the database with the id ${found}, but this database is empty. Check DATABASE_URL and DATA_DIR. If a restore was interrupted, run it again.`,
  )
}

/**
 * Opens a volume for a restore and marks it with the id of the database to be. Throws when it has archives already,
 * unless it carries that id: an interrupted restore goes on, and a volume that outlived its database is used again.
 */
export async function openVolumeForRestore(directory: string, databaseId: string): Promise<ArchiveVolume> {
  const volume = await openArchiveVolume(directory)
  const found = await readOwner(volume)
  if (found === databaseId) return volume
  if (found !== null || (await listSample(volume)).length > 0) {
    throw new Error(`There are archives of another database in ${directory}: restore into an empty DATA_DIR.`)
  }
  await writeOwner(volume, databaseId)
  return volume
}

const pathOf = ({ directory }: ArchiveVolume) => join(directory, 'archives', fileName)

async function readOwner(volume: ArchiveVolume): Promise<string | null> {
  try {
    return (await readFile(pathOf(volume), 'utf8')).trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}

/** Marks a volume as this database's. Returns the id that it carries then: another process may have been faster. */
async function adoptVolume(db: Queryable, volume: ArchiveVolume, databaseId: string): Promise<string> {
  if (!(await belongsHere(db, volume))) {
    throw new Error(
      `There are archives in ${volume.directory}, but this database (id ${databaseId}) knows none of them. Check DATABASE_URL and DATA_DIR. If they do belong together, write the id into ${pathOf(volume)}.`,
    )
  }
  await writeOwner(volume, databaseId)
  return (await readOwner(volume)) ?? databaseId
}

/** Writes the id, unless the volume carries one. */
async function writeOwner(volume: ArchiveVolume, databaseId: string): Promise<void> {
  const temporary = join(volume.directory, 'tmp', randomUUID())
  try {
    const file = await open(temporary, 'wx', 0o640)
    try {
      await file.writeFile(`${databaseId}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    // Unlike a rename, a link never replaces the id that another process has just written.
    await link(temporary, pathOf(volume))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    // Some network volumes have no links.
    if (code === 'EPERM' || code === 'ENOTSUP' || code === 'ENOSYS') await rename(temporary, pathOf(volume))
    else if (code !== 'EEXIST') throw error
  } finally {
    await rm(temporary, { force: true })
  }
}

async function belongsHere(db: Queryable, volume: ArchiveVolume): Promise<boolean> {
  const newest = await findNewestArchive(db)
  if (newest !== null && (await statArchive(volume, newest)) !== null) return true
  const sample = await listSample(volume)
  return sample.length === 0 || isAnyArchiveKnown(db, sample)
}

async function listSample(volume: ArchiveVolume): Promise<string[]> {
  const sample: string[] = []
  for await (const { sha256 } of listArchives(volume)) {
    sample.push(sha256)
    if (sample.length === sampleSize) break
  }
  return sample
}

import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import { findDatabaseId } from '../../database/installation.ts'
import { isMigrated } from '../../database/migrate.ts'
import { findNewestArchive, isAnyArchiveKnown } from '../tables/archives.ts'
import type { ArchiveStore } from './archive-store.ts'
import { openArchiveStore, type StoreSettings } from './open-store.ts'

/** So many archives of a store without an id are looked up in the database. */
const sampleSize = 1000

/**
 * Opens the archive store of this database. The server calls it at its start, and each command that reads or changes
 * archives. A store carries the id of its database. One without an id gets it when it is empty, or when the database
 * knows archives in it. Throws when the store belongs to another database.
 */
export async function openOwnStore(db: Queryable, settings: StoreSettings): Promise<ArchiveStore> {
  const store = await openArchiveStore(settings)
  const databaseId = await findDatabaseId(db)
  const found = (await store.readOwner()) ?? (await adoptStore(db, store, databaseId))
  if (found !== databaseId) {
    throw new Error(
      `The archives in ${store.place} belong to the database with the id ${found}, but this database has the id ${databaseId}. Check DATABASE_URL, DATA_DIR and ARCHIVE_STORE.`,
    )
  }
  return store
}

/** Throws when the database is empty, and the store carries the id of another one. Call it before the first migration. */
export async function refuseEmptyDatabase(db: pg.Pool, settings: StoreSettings): Promise<void> {
  const store = await openArchiveStore(settings)
  // In this order: another process may migrate the database and mark the store at the same time.
  const found = await store.readOwner()
  if (found === null || (await isMigrated(db))) return
  throw new Error(
    `The archives in ${store.place} belong to the database with the id ${found}, but this database is empty. Check DATABASE_URL, DATA_DIR and ARCHIVE_STORE. If a restore was interrupted, run it again.`,
  )
}

/**
 * Marks a store that archives are about to be copied to with the id of their database. Throws when it has archives
 * already, unless it carries that id: an interrupted copy goes on, and a store that outlived its database is used again.
 */
export async function claimStore(store: ArchiveStore, databaseId: string): Promise<void> {
  const found = await store.readOwner()
  if (found === databaseId) return
  if (found !== null || (await listSample(store)).length > 0) {
    throw new Error(`There are archives of another database in ${store.place}: it must be empty.`)
  }
  await store.writeOwner(databaseId)
}

/** Marks a store as this database's. Returns the id that it carries then: another process may have been faster. */
async function adoptStore(db: Queryable, store: ArchiveStore, databaseId: string): Promise<string> {
  if (!(await belongsHere(db, store))) {
    throw new Error(
      `There are archives in ${store.place}, but this database (id ${databaseId}) knows none of them. Check DATABASE_URL, DATA_DIR and ARCHIVE_STORE. If they do belong together, write the id into archives/database-id there.`,
    )
  }
  await store.writeOwner(databaseId)
  return (await store.readOwner()) ?? databaseId
}

async function belongsHere(db: Queryable, store: ArchiveStore): Promise<boolean> {
  const newest = await findNewestArchive(db)
  if (newest !== null && (await store.stat(newest)) !== null) return true
  const sample = await listSample(store)
  return sample.length === 0 || isAnyArchiveKnown(db, sample)
}

async function listSample(store: ArchiveStore): Promise<string[]> {
  const sample: string[] = []
  for await (const { sha256 } of store.list()) {
    sample.push(sha256)
    if (sample.length === sampleSize) break
  }
  return sample
}

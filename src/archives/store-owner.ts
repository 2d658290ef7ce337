import type pg from 'pg'
import type { Config } from '../config.ts'
import type { Queryable } from '../database/database.ts'
import { findDatabaseId, findServerUrls } from '../database/installation.ts'
import { isMigrated } from '../database/migrate.ts'
import type { ArchiveStore } from './archive-store.ts'
import { openLocalStore } from './local-store.ts'
import { observeStore } from './observed-store.ts'
import { findNewestArchive, isAnyArchiveKnown } from './tables/archives.ts'

/** The settings of the archive store. */
export type StoreSettings = Pick<Config, 'dataDir' | 'archiveStore' | 'archiveDelivery' | 'storage'>

/** Opens the archive store of this configuration. */
export async function openArchiveStore(settings: StoreSettings): Promise<ArchiveStore> {
  const { dataDir, archiveStore, archiveDelivery, storage } = settings
  const { reserveBytes } = storage
  const isLinked = archiveDelivery === 'redirect'
  if (archiveStore === null) return observeStore(await openLocalStore(dataDir, reserveBytes))
  // Its client loads undici, as `outbound/` does with its first request.
  const { openS3Store } = await import('./s3-store.ts')
  return observeStore(await openS3Store(dataDir, archiveStore, { isLinked, reserveBytes }))
}

/** The number of archives that are looked up in the database when a store has no database id. */
const sampleSize = 1000

/**
 * Opens the archive store of this database. The server calls this at its start, and so does each command that reads or
 * changes archives. A store has the id of its database. A store without an id gets one when it is empty, or when the
 * database knows archives in it. Throws when the store belongs to another database.
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

/**
 * Opens the archive store of this database for a command that adds archives. After the server's first start its store
 * has an id, so one without an id is refused: the command lacks the server's settings, and the server would not find
 * what it adds.
 */
export async function openStoreOfServer(db: Queryable, settings: StoreSettings): Promise<ArchiveStore> {
  const store = await openArchiveStore(settings)
  if ((await store.readOwner()) === null && (await findServerUrls(db)) !== null) {
    throw new Error(
      `The server does not store its archives in ${store.place}. Run the command with the server's DATA_DIR and ARCHIVE_STORE.`,
    )
  }
  return openOwnStore(db, settings)
}

/**
 * Throws when the database is empty and the store has the id of another database. Call it before the first migration.
 */
export async function refuseEmptyDatabase(db: pg.Pool, settings: StoreSettings): Promise<void> {
  const store = await openArchiveStore(settings)
  // Keep this order, because another process may migrate the database and write its id to the store at the same time.
  const found = await store.readOwner()
  if (found === null || (await isMigrated(db))) return
  throw new Error(
    `The archives in ${store.place} belong to the database with the id ${found}, but this database is empty. Check DATABASE_URL, DATA_DIR and ARCHIVE_STORE. If a restore was interrupted, run it again.`,
  )
}

/**
 * Writes the id of the database into a store before archives are copied to it. Throws when the store has archives,
 * unless it has the same id. So an interrupted copy can continue, and a restored database can use its store again.
 */
export async function claimStore(store: ArchiveStore, databaseId: string): Promise<void> {
  const found = await store.readOwner()
  if (found === databaseId) return
  if (found !== null || (await listSample(store)).length > 0) {
    throw new Error(`${store.place} contains archives of another database. Use an empty archive store.`)
  }
  await store.writeOwner(databaseId)
}

/**
 * Writes the id of this database into the store. Returns the id in the store, because another process may have been
 * faster.
 */
async function adoptStore(db: Queryable, store: ArchiveStore, databaseId: string): Promise<string> {
  if (!(await belongsHere(db, store))) {
    throw new Error(
      `${store.place} contains archives, but this database (id ${databaseId}) knows none of them. Check DATABASE_URL, DATA_DIR and ARCHIVE_STORE. If they belong together, write the id into archives/database-id there.`,
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

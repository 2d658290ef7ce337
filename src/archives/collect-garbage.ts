import { rm } from 'node:fs/promises'
import type pg from 'pg'
import { brokenConstraint } from '../database/errors.ts'
import { noteMaintenance, unlessBackupRuns } from '../database/installation.ts'
import { FailedForGood, type Job } from '../jobs/job.ts'
import type { ArchiveStore } from './archive-store.ts'
import { listTemporaryFiles } from './local-store.ts'
import { lockedSize, removeFiles, removingFiles } from './remove-files.ts'
import { NotClaimed, requireClaim } from './store-claim.ts'
import { openOwnStore } from './store-owner.ts'
import { deleteOrphanedArchives, deleteOrphansAmong } from './tables/archives.ts'
import {
  countDueArchives,
  type DueArchives,
  deleteStoredArchives,
  listDueArchives,
  markUnusedArchives,
  type RecordedArchive,
} from './tables/stored-archives.ts'

// Two tables know archives. A row of `archive` has the hashes of what was published or fetched. A row of `stored_archive` says
// that the file is in the store, and since when nothing needs it. The view `archive_reference` has what refers to an archive,
// and whether it needs the file: a purged version needs only the row.
// Unused: nothing needs its file. Due: unused for 14 days. Orphaned: a row of `archive` to which nothing refers.

/** The number and size of the files that were removed, or would be removed. */
export interface CollectedGarbage {
  archives: number
  temporaryFiles: number
  bytes: number
}

/** Options of a garbage collection. */
export interface CollectOptions {
  /** Count the garbage without removing it. */
  isDryRun?: boolean
  /** Allow the removal of more than half of the archives. */
  isForced?: boolean
  signal?: AbortSignal
}

/**
 * Files that were touched within this time stay. The time is longer than any upload: an upload touches the archive, and
 * its version is stored within minutes.
 */
const untouchedMilliseconds = 24 * 60 * 60 * 1000
const collectSeconds = 24 * 60 * 60

/** Thrown when a collection would remove more than half of the archives. */
class TooMuchGarbage extends Error {}

/** Collects garbage once a day. Only one server process runs this job at a time. */
export const collectGarbageJob: Job = {
  name: 'collect-garbage',
  everySeconds: collectSeconds,
  needsClaim: true,
  // Retry for a long time, because a backup may run for hours.
  retry: { attempts: 8, delaySeconds: 300 },
  async run({ db, config, log }, _data, signal) {
    try {
      const collected = await collectGarbage(db, await openOwnStore(db, config), { signal })
      log.info(collected, 'archives that nothing needs were removed')
    } catch (error) {
      // A retry would give the same result. Only a person can decide whether the removal is right.
      const isForPeople = error instanceof TooMuchGarbage || error instanceof NotClaimed
      throw isForPeople ? new FailedForGood(error.message) : error
    }
  },
}

/**
 * Removes archives that this database has stored and that nothing has needed for 14 days, their rows, and the temporary
 * files of uploads that crashed. Throws `NotClaimed` when another database uses the store. If it would remove more than
 * half of the archives, it throws `TooMuchGarbage` before it removes anything, unless it is forced. Throws while a backup
 * runs. A dry run counts what would be removed, and does not throw for these two.
 */
export async function collectGarbage(
  db: pg.Pool,
  store: ArchiveStore,
  { isDryRun = false, isForced = false, signal }: CollectOptions = {},
): Promise<CollectedGarbage> {
  await requireClaim(db, store)
  // Use the clock of this machine, which also sets the times of the files.
  const untouchedSince = new Date(Date.now() - untouchedMilliseconds)
  if (isDryRun) return countGarbage(await countDueArchives(db), store, untouchedSince)
  await mark(db, signal)
  const { due, all } = await countDueArchives(db)
  if (!isForced && due * 2 > all) {
    throw new TooMuchGarbage(
      `Nothing needs ${due} of the ${all} archives. To remove more than half of them, run svc collect-garbage --force.`,
    )
  }
  const collected = await remove(db, store, { untouchedSince, signal })
  await noteMaintenance(db, 'garbage-collection')
  return collected
}

async function countGarbage(
  { due, dueBytes }: DueArchives,
  store: ArchiveStore,
  untouchedSince: Date,
): Promise<CollectedGarbage> {
  const counted = { archives: due, temporaryFiles: 0, bytes: dueBytes }
  for await (const { size, touchedAt } of listTemporaryFiles(store)) {
    if (touchedAt > untouchedSince) continue
    counted.temporaryFiles += 1
    counted.bytes += size
  }
  return counted
}

/** Stores which archives are unused now. Their 14 days begin when a collection finds them unused. */
async function mark(db: pg.Pool, signal: AbortSignal | undefined): Promise<void> {
  for (let last: string | null = ''; last !== null; last = await markUnusedArchives(db, last))
    signal?.throwIfAborted()
}

async function remove(
  db: pg.Pool,
  store: ArchiveStore,
  { untouchedSince, signal }: { untouchedSince: Date; signal: AbortSignal | undefined },
): Promise<CollectedGarbage> {
  const collected: CollectedGarbage = { archives: 0, temporaryFiles: 0, bytes: 0 }
  // Refuse now, even when there is nothing to remove.
  await unlessBackupRuns(db, async () => {})
  for (let batch = await listDueArchives(db, '', lockedSize); batch.length > 0; ) {
    signal?.throwIfAborted()
    for (const { size } of await removeDue(batch)) {
      collected.archives += 1
      collected.bytes += size
    }
    batch = await listDueArchives(db, batch.at(-1)?.sha256 ?? '', lockedSize)
  }
  for (let last: string | null = ''; last !== null; ) {
    signal?.throwIfAborted()
    last = await unlessBackupRuns(db, () => again(() => deleteOrphanedArchives(db, last ?? '')))
  }
  for await (const { path, size, touchedAt } of listTemporaryFiles(store)) {
    if (touchedAt > untouchedSince) continue
    await rm(path, { force: true })
    collected.temporaryFiles += 1
    collected.bytes += size
  }
  return collected

  async function removeDue(archives: readonly RecordedArchive[]): Promise<RecordedArchive[]> {
    return removingFiles(db, store, async (tx) => {
      // Delete the rows first, on another connection, so that this is committed. After a crash, the next collection finds the
      // recorded archive. A row without its file would be damage.
      const needed = await again(() =>
        deleteOrphansAmong(
          db,
          archives.map(({ sha256 }) => sha256),
        ),
      )
      const unused = archives.filter(({ sha256 }) => !needed.has(sha256))
      const removed = await removeFiles(
        store,
        unused.map(({ sha256 }) => sha256),
        untouchedSince,
      )
      await deleteStoredArchives(tx, removed)
      return unused.filter(({ sha256 }) => removed.includes(sha256))
    })
  }
}

/** Repeats a statement when a publication has just used one of its archives. */
async function again<T>(statement: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await statement()
    } catch (error) {
      if (!brokenConstraint(error)?.endsWith('_sha256_fkey') || attempt === 10) throw error
    }
  }
}

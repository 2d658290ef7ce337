import { rm } from 'node:fs/promises'
import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import { brokenConstraint } from '../../database/errors.ts'
import { unlessBackupRuns } from '../../database/installation.ts'
import { FailedForGood, type Job } from '../../jobs/job.ts'
import {
  deleteOrphanedArchives,
  deleteUnnamedArchives,
  listNamedArchives,
  lockCollection,
} from '../tables/archives.ts'
import type { ArchiveStore, StoredArchive } from './archive-store.ts'
import { listTemporaryFiles } from './local-store.ts'
import { openOwnStore } from './store-owner.ts'

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
const batchSize = 1000
/**
 * How many archives are removed under one lock. Publications wait meanwhile, but only for a moment, also with a bucket.
 */
const lockedSize = 20
const collectSeconds = 24 * 60 * 60

/** Thrown when a collection would remove more than half of the archives. */
export class TooMuchGarbage extends Error {}

/** Collects garbage once a day. Only one server process runs this job at a time. */
export const collectGarbageJob: Job = {
  name: 'collect-garbage',
  everySeconds: collectSeconds,
  // Retry for a long time, because a backup may run for hours.
  retry: { attempts: 8, delaySeconds: 300 },
  async run({ db, config, log }, _data, signal) {
    try {
      const collected = await collectGarbage(db, await openOwnStore(db, config), { signal })
      log.info(collected, 'archives without a version were removed')
    } catch (error) {
      // A retry would give the same result. Only a person can decide whether the removal is right.
      throw error instanceof TooMuchGarbage ? new FailedForGood(error.message) : error
    }
  },
}

/**
 * Removes archives without a version that is not purged, their rows, and the temporary files of uploads that crashed.
 * It keeps files that were touched within a day, so uploads can run at the same time. If it would remove more than half
 * of the archives, it throws `TooMuchGarbage` before it removes anything, unless it is forced. Throws while a backup
 * runs.
 */
export async function collectGarbage(
  db: pg.Pool,
  store: ArchiveStore,
  { isDryRun = false, isForced = false, signal }: CollectOptions = {},
): Promise<CollectedGarbage> {
  // Use the clock of this machine, which also sets the times of the files.
  const untouchedSince = new Date(Date.now() - untouchedMilliseconds)
  const collected = isDryRun || !isForced ? await count(db, store, { untouchedSince, signal }) : null
  if (collected && isDryRun) return collected
  if (collected && collected.archives * 2 > collected.kept + collected.archives) {
    throw new TooMuchGarbage(
      `${collected.archives} of the ${collected.kept + collected.archives} archives have no version. To remove more than half of them, run svc collect-garbage --force.`,
    )
  }
  return remove(db, store, { untouchedSince, signal })
}

async function count(
  db: Queryable,
  store: ArchiveStore,
  { untouchedSince, signal }: { untouchedSince: Date; signal: AbortSignal | undefined },
): Promise<CollectedGarbage & { kept: number }> {
  const counted = { archives: 0, temporaryFiles: 0, bytes: 0, kept: 0 }
  for await (const batch of batchesOf(store.list())) {
    signal?.throwIfAborted()
    const named = await listNamedArchives(
      db,
      batch.map(({ sha256 }) => sha256),
    )
    for (const { sha256, size, touchedAt } of batch) {
      if (named.has(sha256) || touchedAt > untouchedSince) {
        counted.kept += 1
      } else {
        counted.archives += 1
        counted.bytes += size
      }
    }
  }
  for await (const { size, touchedAt } of listTemporaryFiles(store)) {
    if (touchedAt > untouchedSince) continue
    counted.temporaryFiles += 1
    counted.bytes += size
  }
  return counted
}

async function remove(
  db: pg.Pool,
  store: ArchiveStore,
  { untouchedSince, signal }: { untouchedSince: Date; signal: AbortSignal | undefined },
): Promise<CollectedGarbage> {
  const collected: CollectedGarbage = { archives: 0, temporaryFiles: 0, bytes: 0 }
  // Refuse now, even when there is nothing to remove.
  await unlessBackupRuns(db, async () => {})
  for await (const batch of batchesOf(store.list())) {
    signal?.throwIfAborted()
    const untouched = batch.filter(({ touchedAt }) => touchedAt <= untouchedSince)
    for (let i = 0; i < untouched.length; i += lockedSize) {
      signal?.throwIfAborted()
      for (const { size } of await removeUnnamed(untouched.slice(i, i + lockedSize))) {
        collected.archives += 1
        collected.bytes += size
      }
    }
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

  async function removeUnnamed(archives: readonly StoredArchive[]): Promise<StoredArchive[]> {
    return unlessBackupRuns(db, async (tx) => {
      await lockCollection(tx)
      // A bucket may respond later than an idle transaction may wait. The lock must stay until then.
      await tx.query('set local idle_in_transaction_session_timeout = 0')
      // Delete the rows first. After a crash, the next collection finds the file. A row without its file would be
      // damage.
      const named = await again(() =>
        deleteUnnamedArchives(
          db,
          archives.map(({ sha256 }) => sha256),
        ),
      )
      const ended = await Promise.allSettled(
        archives.map(async (archive) => {
          const isRemoved = !named.has(archive.sha256) && (await store.remove(archive.sha256, untouchedSince))
          return isRemoved ? [archive] : []
        }),
      )
      // Only now: a removal after the end of the transaction could hit an archive that was just published again.
      return ended.flatMap((one) => {
        if (one.status === 'rejected') throw one.reason
        return one.value
      })
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

/** Yields batches of archives, each small enough for one statement. */
async function* batchesOf(
  archives: AsyncIterable<StoredArchive>,
): AsyncGenerator<StoredArchive[], void, void> {
  let batch: StoredArchive[] = []
  for await (const archive of archives) {
    batch.push(archive)
    if (batch.length < batchSize) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

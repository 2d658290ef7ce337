import type { Config } from '../config.ts'
import type { Queryable } from '../database/database.ts'
import { findDatabaseId } from '../database/installation.ts'
import type { Job, JobContext } from '../jobs/job.ts'
import { type ArchiveStore, isArchiveIntact, type ProblemKind, type ReadPace } from './archive-store.ts'
import { openArchiveStore } from './store-owner.ts'
import { type CheckedArchive, listArchivesToCheck, noteArchiveCheck } from './tables/stored-archives.ts'

const scrubSeconds = 60 * 60
/** How fast a scrub reads, so that pulls keep most of the disk. */
export interface ScrubPace extends ReadPace {
  /** It begins no other archive after this time. The next scrub continues there. */
  maxMilliseconds: number
}

/** With ten minutes an hour, a month has time for about 7 TB. */
const hourlyPace = { bytesPerSecond: 16 * 1024 ** 2, maxMilliseconds: 10 * 60 * 1000 }
/** The number of archives that one statement lists. */
const listedSize = 100

/** What a scrub did. */
export interface Scrubbed {
  archives: number
  /** How many of them are missing or damaged. */
  problems: number
}

/**
 * Compares stored archives with their hashes, a part of them every hour, so that each is compared again after
 * ARCHIVE_CHECK_DAYS. It reads only: `svc verify-archives --repair` repairs.
 */
export const scrubArchivesJob: Job = {
  name: 'scrub-archives',
  everySeconds: scrubSeconds,
  // It waits for the disk or the bucket most of the time.
  hasOwnSlots: true,
  async run({ config, db, log }, _data, signal) {
    const scrubbed = await scrubArchives({ config, db, log }, { signal, ...hourlyPace })
    if (scrubbed.archives > 0) log.info(scrubbed, 'stored archives were compared with their hashes')
  },
}

/** Compares the archives that are due with their hashes, and stores the results. */
export async function scrubArchives({ config, db, log }: JobContext, pace: ScrubPace): Promise<Scrubbed> {
  const store = await openMountedStore(db, config)
  const end = performance.now() + pace.maxMilliseconds
  const scrubbed: Scrubbed = { archives: 0, problems: 0 }
  for (;;) {
    const batch = await listArchivesToCheck(db, config.archiveCheckDays, listedSize)
    for (const archive of batch) {
      pace.signal?.throwIfAborted()
      if (performance.now() > end) return scrubbed
      const problem = await findProblem(store, archive, pace)
      await noteArchiveCheck(db, archive.sha256, problem)
      scrubbed.archives += 1
      if (problem === null) continue
      scrubbed.problems += 1
      if (archive.problem === null)
        log.error(
          { sha256: archive.sha256, problem },
          'a stored archive is damaged: run svc verify-archives --repair',
        )
    }
    if (batch.length < listedSize) return scrubbed
  }
}

/**
 * Opens the store, which must have the id of this database. Without its volume, a folder is empty: then every archive would
 * count as missing.
 */
async function openMountedStore(db: Queryable, config: Config): Promise<ArchiveStore> {
  const store = await openArchiveStore(config)
  if ((await store.readOwner()) === (await findDatabaseId(db))) return store
  throw new Error(`The archive store ${store.place} lacks the id of this database: is it still mounted?`)
}

async function findProblem(
  store: ArchiveStore,
  { sha256, size }: CheckedArchive,
  pace: ReadPace,
): Promise<ProblemKind | null> {
  const stored = await store.stat(sha256)
  const isIntact = stored && (await isArchiveIntact(store, sha256, pace))
  if (stored === null || isIntact === null) return 'missing'
  if (!isIntact) return 'damaged'
  return stored.size === size ? null : 'wrong size'
}

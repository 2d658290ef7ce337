import type pg from 'pg'
import { unlessBackupRuns } from '../database/installation.ts'
import type { ArchiveStore } from './archive-store.ts'
import { requireClaim } from './store-claim.ts'
import { lockCollection } from './tables/archives.ts'

/**
 * How many archives are removed under one lock. Publications wait meanwhile, but only for a moment, also with a bucket.
 */
export const lockedSize = 20

/**
 * Runs work that removes files of the store, in a transaction that waits for publications and lets no new one begin. So
 * nothing starts to need an archive while the work decides. Throws while a backup runs, and `NotClaimed` when another
 * database uses the store.
 */
export async function removingFiles<T>(
  db: pg.Pool,
  store: ArchiveStore,
  work: (tx: pg.PoolClient) => Promise<T>,
): Promise<T> {
  return unlessBackupRuns(db, async (tx) => {
    await lockCollection(tx)
    // A bucket may respond later than an idle transaction may wait. The lock must stay until then.
    await tx.query('set local idle_in_transaction_session_timeout = 0')
    // The job may take hours, and the claim may have been lost since its start.
    await requireClaim(tx, store)
    return work(tx)
  })
}

/** Removes files that were not touched since a time. Returns the hashes of those that it removed. Call it in `removingFiles`. */
export async function removeFiles(
  store: ArchiveStore,
  sha256s: readonly string[],
  untouchedSince: Date,
): Promise<string[]> {
  const ended = await Promise.allSettled(
    sha256s.map(async (sha256) => ((await store.remove(sha256, untouchedSince)) ? [sha256] : [])),
  )
  // Only now: a removal after the end of the transaction could hit an archive that was just stored again.
  for (const one of ended) if (one.status === 'rejected') throw one.reason
  return ended.flatMap((one) => (one.status === 'fulfilled' ? one.value : []))
}

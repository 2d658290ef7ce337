import type { Queryable } from '../database/database.ts'
import { type ArchiveStore, isArchiveIntact, type ReceivedArchive } from './archive-store.ts'
import { endKeeping, noteArchiveCheck, recordArchive } from './tables/stored-archives.ts'

/**
 * Keeps a received archive in the store of this database, and then runs work that adds a reference to it. The database
 * records the archive first: a garbage collection removes only recorded archives, so one that a crash leaves here is not
 * forgotten. A purge does not remove it until the work has ended. Replaces damaged bytes.
 */
export async function keepArchive<T>(
  db: Queryable,
  store: ArchiveStore,
  received: ReceivedArchive,
  work: () => Promise<T>,
): Promise<T> {
  const { sha256 } = received
  const { hadProblem } = await recordArchive(db, received)
  try {
    const outcome = await store.keep(received)
    if (outcome === 'known' && (await isArchiveIntact(store, sha256)) === false) await store.replace(received)
    if (hadProblem) await noteArchiveCheck(db, sha256, null)
    return await work()
  } finally {
    // Without this, a purge waits a day. The work has succeeded or failed already.
    await endKeeping(db, sha256).catch(() => {})
  }
}

/**
 * Makes sure that an archive exists, with all bytes, after the database refers to it. A garbage collection may have
 * removed a bucket's copy just before that, and the store may have lost the archive. Later collections keep it. If the
 * archive was not kept in a folder before, the temporary file must still exist.
 */
export async function keepIfMissing(store: ArchiveStore, received: ReceivedArchive): Promise<void> {
  if (!(await store.has(received))) await store.keep(received)
}

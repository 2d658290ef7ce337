import type { Queryable } from '../../database/database.ts'
import { noteArchiveCheck, recordArchive } from '../tables/stored-archives.ts'
import { type ArchiveStore, isArchiveIntact, type ReceivedArchive } from './archive-store.ts'

/**
 * Keeps a received archive in the store of this database. The database records it first: a garbage collection removes
 * only recorded archives, so one that a crash leaves here is not forgotten. Replaces damaged bytes.
 */
export async function keepArchive(
  db: Queryable,
  store: ArchiveStore,
  received: ReceivedArchive,
): Promise<void> {
  const { sha256 } = received
  const { hadProblem } = await recordArchive(db, received)
  const outcome = await store.keep(received)
  if (outcome === 'known' && (await isArchiveIntact(store, sha256)) === false) await store.replace(received)
  if (hadProblem) await noteArchiveCheck(db, sha256, null)
}

/**
 * Makes sure that an archive exists, with all bytes, after the database refers to it. A garbage collection may have
 * removed a bucket's copy just before that, and the store may have lost the archive. Later collections keep it. If the
 * archive was not kept in a folder before, the temporary file must still exist.
 */
export async function keepNamedArchive(store: ArchiveStore, received: ReceivedArchive): Promise<void> {
  if (!(await store.has(received))) await store.keep(received)
}

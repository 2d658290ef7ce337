import type { Queryable } from '../../database/database.ts'
import { findNewestArchive, listArchivesAfter, type NamedArchive } from '../tables/archives.ts'
import { type ArchiveStore, verifyArchive } from './archive-store.ts'

/** What is wrong with an archive. */
export interface ArchiveProblem {
  sha256: string
  /**
   * - `damaged`: its bytes are not what its name says;
   * - `missing`: versions name it, and it is not in the store;
   * - `wrong size`: it is there with another size than the database knows.
   */
  problem: 'damaged' | 'missing' | 'wrong size'
  /** Such as `acme/php: acme/lib 1.0.0`; none when no version names it. At most ten. */
  versions: string[]
}

/** What was looked at, and what was wrong with it. */
export interface Verification {
  archives: number
  problems: ArchiveProblem[]
}

/**
 * Compares every archive in the store with its hash, and every version that is not purged with its archive. It reads
 * all bytes, changes nothing, and repairs nothing.
 */
export async function verifyArchives(db: Queryable, store: ArchiveStore): Promise<Verification> {
  const damaged = new Set<string>()
  let archives = 0
  for await (const { sha256 } of store.list()) {
    // Null when it was collected meanwhile: what versions name is looked for below.
    const isSound = await verifyArchive(store, sha256)
    if (isSound !== null) archives += 1
    if (isSound === false) damaged.add(sha256)
  }
  const problems: ArchiveProblem[] = []
  for await (const named of listNamed(db)) {
    const problem = await problemOf(store, named, damaged)
    if (problem) problems.push({ sha256: named.sha256, problem, versions: named.versions })
    damaged.delete(named.sha256)
  }
  const unnamed = Array.from(damaged, (sha256) => ({ sha256, problem: 'damaged' as const, versions: [] }))
  return { archives, problems: [...problems, ...unnamed] }
}

/** Whether the archive published last is missing: then a volume was likely not mounted. */
export async function lacksNewestArchive(db: Queryable, store: ArchiveStore): Promise<boolean> {
  const newest = await findNewestArchive(db)
  return newest !== null && (await store.stat(newest)) === null
}

async function problemOf(
  store: ArchiveStore,
  { sha256, size }: NamedArchive,
  damaged: ReadonlySet<string>,
): Promise<ArchiveProblem['problem'] | null> {
  const stored = await store.stat(sha256)
  if (!stored) return 'missing'
  if (damaged.has(sha256)) return 'damaged'
  return stored.size === size ? null : 'wrong size'
}

async function* listNamed(db: Queryable): AsyncGenerator<NamedArchive, void, void> {
  let last = ''
  for (;;) {
    const batch = await listArchivesAfter(db, last)
    yield* batch
    const end = batch.at(-1)
    if (!end) return
    last = end.sha256
  }
}

import type { Queryable } from '../database/database.ts'
import { type ArchiveStore, isArchiveIntact, type ProblemKind } from './archive-store.ts'
import { type ExpectedArchive, listArchivesAfter, listNewestArchives } from './tables/archives.ts'
import { noteArchiveCheck } from './tables/stored-archives.ts'

/** A problem with an archive. */
export interface ArchiveProblem {
  sha256: string
  problem: ProblemKind
  /** The versions that refer to it, such as `acme/php: acme/lib 1.0.0`. At most ten. */
  versions: string[]
}

/** The number of checked archives, and the problems found. */
export interface Verification {
  archives: number
  problems: ArchiveProblem[]
}

/**
 * Compares every archive in the store with its hash, and every version that is not purged with its archive. Reads all
 * bytes, and stores what it has found.
 */
export async function verifyArchives(db: Queryable, store: ArchiveStore): Promise<Verification> {
  const damaged = new Set<string>()
  let archives = 0
  for await (const { sha256 } of store.list()) {
    // Null when garbage collection has removed the archive. The archives of versions are checked below.
    const isSound = await isArchiveIntact(store, sha256)
    if (isSound === null) continue
    archives += 1
    if (!isSound) damaged.add(sha256)
    await noteArchiveCheck(db, sha256, isSound ? null : 'damaged')
  }
  const problems: ArchiveProblem[] = []
  for await (const needed of listNeeded(db)) {
    const problem = await problemOf(store, needed, damaged)
    damaged.delete(needed.sha256)
    if (!problem) continue
    problems.push({ sha256: needed.sha256, problem, versions: needed.versions })
    await noteArchiveCheck(db, needed.sha256, problem)
  }
  const others = Array.from(damaged, (sha256) => ({ sha256, problem: 'damaged' as const, versions: [] }))
  return { archives, problems: [...problems, ...others] }
}

/** How many of the newest archives show whether a store is complete. */
const sampleSize = 100
/** How many archives are looked up in the store at once. */
const atOnce = 8

/**
 * Counts the archives that the database needs and that the store does not have. Returns null when the store has the newest
 * ones: then it is not an older copy, or another folder. Otherwise it looks up every archive. Stops when the signal is
 * aborted, and counts what it has seen.
 */
export async function countMissingArchives(
  db: Queryable,
  store: ArchiveStore,
  signal: AbortSignal,
): Promise<{ missing: number; archives: number } | null> {
  if ((await countMissing(store, await listNewestArchives(db, sampleSize))) === 0) return null
  const counted = { missing: 0, archives: 0 }
  let batch: string[] = []
  for await (const { sha256 } of listNeeded(db)) {
    batch.push(sha256)
    if (batch.length < sampleSize) continue
    await count()
    if (signal.aborted) return counted
  }
  await count()
  return counted

  async function count(): Promise<void> {
    counted.missing += await countMissing(store, batch)
    counted.archives += batch.length
    batch = []
  }
}

async function countMissing(store: ArchiveStore, sha256s: readonly string[]): Promise<number> {
  let missing = 0
  const waiting = sha256s.values()
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const sha256 of waiting) if ((await store.stat(sha256)) === null) missing += 1
    }),
  )
  return missing
}

async function problemOf(
  store: ArchiveStore,
  { sha256, size }: ExpectedArchive,
  damaged: ReadonlySet<string>,
): Promise<ProblemKind | null> {
  const stored = await store.stat(sha256)
  if (!stored) return 'missing'
  if (damaged.has(sha256)) return 'damaged'
  return stored.size === size ? null : 'wrong size'
}

async function* listNeeded(db: Queryable): AsyncGenerator<ExpectedArchive, void, void> {
  let last = ''
  for (;;) {
    const batch = await listArchivesAfter(db, last)
    yield* batch
    const end = batch.at(-1)
    if (!end) return
    last = end.sha256
  }
}

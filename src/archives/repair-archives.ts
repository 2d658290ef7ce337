import { open, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import type { Queryable } from '../database/database.ts'
import { Refusal } from '../domain/refusal.ts'
import type { ArchiveStore } from './archive-store.ts'
import { keepArchive } from './keep-archive.ts'
import { archiveName, discardArchive, receiveArchive } from './local-store.ts'
import type { ArchiveProblem } from './verify-archives.ts'

/**
 * An archive that a source has, or the reason why it cannot give one that it should have. `place` is the name of the source
 * in messages. The bytes may be wrong: the repair compares them with the hash.
 */
export type OfferedArchive =
  | { sha256: string; place: string; size: number; bytes: Readable }
  | { sha256: string; reason: string }

/**
 * Offers those of the wanted archives that a source has. The repair removes a repaired archive from the set, and reads or
 * destroys the bytes before it asks for the next archive. An error ends this source.
 */
export type ArchiveSource = (wanted: ReadonlySet<string>) => AsyncGenerator<OfferedArchive, void, void>

/** What a repair did. */
export interface Repair {
  /** `from` is the name of the source of the good bytes. */
  repaired: (ArchiveProblem & { from: string })[]
  /** `reasons`: what each source said. Empty when no source has the archive. */
  left: (ArchiveProblem & { reasons: string[] })[]
}

/**
 * Stores good bytes of archives that have a problem. Asks one source after another, and takes only bytes that match the
 * hash. Throws when the store of this database cannot keep them.
 */
export async function repairArchives(
  db: Queryable,
  store: ArchiveStore,
  problems: readonly ArchiveProblem[],
  sources: readonly ArchiveSource[],
): Promise<Repair> {
  const repaired = new Map<string, string>()
  const reasons = new Map(problems.map(({ sha256 }) => [sha256, new Set<string>()]))
  const wanted = new Set<string>()
  for (const { sha256, problem } of problems) {
    if (problem === 'wrong size')
      reasons.get(sha256)?.add('its bytes match its hash, so the size in the database is wrong')
    else wanted.add(sha256)
  }
  for (const source of sources) {
    if (wanted.size === 0) break
    for await (const offered of offersOf(source, wanted)) {
      const { sha256 } = offered
      if ('reason' in offered) {
        reasons.get(sha256)?.add(offered.reason)
        continue
      }
      const reason = await take(db, store, offered)
      if (reason !== null) reasons.get(sha256)?.add(`${offered.place}: ${reason}`)
      else if (wanted.delete(sha256)) repaired.set(sha256, offered.place)
    }
  }
  return {
    repaired: problems.flatMap((problem) => {
      const from = repaired.get(problem.sha256)
      return from === undefined ? [] : [{ ...problem, from }]
    }),
    left: problems
      .filter(({ sha256 }) => !repaired.has(sha256))
      .map((problem) => ({ ...problem, reasons: [...(reasons.get(problem.sha256) ?? [])] })),
  }
}

/** Returns what a source offers. An error of the source is its reason for every archive that is still wanted. */
async function* offersOf(source: ArchiveSource, wanted: ReadonlySet<string>): ReturnType<ArchiveSource> {
  try {
    yield* source(wanted)
  } catch (error) {
    for (const sha256 of wanted) yield { sha256, reason: (error as Error).message }
  }
}

/** Keeps an archive if its bytes match its hash. Returns why it was not kept, or null. */
async function take(
  db: Queryable,
  store: ArchiveStore,
  { sha256, size, bytes }: { sha256: string; size: number; bytes: Readable },
): Promise<string | null> {
  try {
    const received = await receiveArchive(store, bytes, { maxBytes: size })
    try {
      if (received.sha256 !== sha256) return 'its bytes do not match the hash either'
      await keepArchive(db, store, received, async () => {})
      return null
    } finally {
      await discardArchive(received)
    }
  } catch (error) {
    if (error instanceof Refusal && error.status === 413) return 'its bytes do not match the hash either'
    if (bytes.errored !== null) return bytes.errored.message
    throw error
  } finally {
    bytes.destroy()
  }
}

/** Opens the archives of another DATA_DIR, without writing there. Throws when the folder is none. */
export async function openFolderSource(directory: string): Promise<ArchiveSource> {
  const archives = join(directory, 'archives')
  const found = await stat(archives).catch(() => null)
  if (!found?.isDirectory()) throw new Error(`${directory} is not a DATA_DIR: it has no folder archives.`)
  return async function* offer(wanted) {
    for (const sha256 of wanted) {
      const file = await open(join(archives, archiveName(sha256)), 'r').catch(
        (error: NodeJS.ErrnoException) => error,
      )
      if (!(file instanceof Error))
        yield { sha256, place: directory, size: (await file.stat()).size, bytes: file.createReadStream() }
      else if (file.code !== 'ENOENT')
        yield { sha256, reason: `${directory}: its file cannot be read (${file.code})` }
    }
  }
}

/** Returns the archives of another store, such as a bucket. */
export function sourceOfStore(store: ArchiveStore): ArchiveSource {
  return async function* offer(wanted) {
    for (const sha256 of wanted) {
      const archive = await store.read(sha256).catch((error: Error) => {
        throw new Error(`${store.place}: ${error.message}`)
      })
      if (archive) yield { sha256, place: store.place, ...archive }
    }
  }
}

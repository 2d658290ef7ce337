import { rm } from 'node:fs/promises'
import type { Queryable } from '../../database/database.ts'
import { listNamedArchives } from '../tables/archives.ts'
import {
  type ArchiveVolume,
  listArchives,
  listTemporaryFiles,
  removeArchive,
  type StoredArchive,
} from './archive-volume.ts'

/** What was removed, and its size. */
export interface CollectedGarbage {
  archives: number
  temporaryFiles: number
  bytes: number
}

/** Longer than any upload is under way: who keeps an archive touches it, and names it within minutes. */
const untouchedMilliseconds = 24 * 60 * 60 * 1000
const batchSize = 1000

/**
 * Removes the archives that no version names, purged ones not counted, and the temporary files of uploads that
 * crashed: both only when nobody has touched them for a day, and so beside running uploads.
 */
export async function collectGarbage(db: Queryable, volume: ArchiveVolume): Promise<CollectedGarbage> {
  // By this machine's clock, as the files' times are.
  const untouchedSince = new Date(Date.now() - untouchedMilliseconds)
  const collected: CollectedGarbage = { archives: 0, temporaryFiles: 0, bytes: 0 }
  for await (const batch of batchesOf(listArchives(volume), untouchedSince)) {
    const named = await listNamedArchives(
      db,
      batch.map(({ sha256 }) => sha256),
    )
    for (const { sha256, size } of batch) {
      if (named.has(sha256) || !(await removeArchive(volume, sha256, untouchedSince))) continue
      collected.archives += 1
      collected.bytes += size
    }
  }
  for await (const { path, size, touchedAt } of listTemporaryFiles(volume)) {
    if (touchedAt > untouchedSince) continue
    await rm(path, { force: true })
    collected.temporaryFiles += 1
    collected.bytes += size
  }
  return collected
}

/** The archives that nobody has touched, so many at once that one statement judges them. */
async function* batchesOf(
  archives: AsyncIterable<StoredArchive>,
  untouchedSince: Date,
): AsyncGenerator<StoredArchive[], void, void> {
  let batch: StoredArchive[] = []
  for await (const archive of archives) {
    if (archive.touchedAt > untouchedSince) continue
    batch.push(archive)
    if (batch.length < batchSize) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
}

import type pg from 'pg'
import type { ArchiveStore } from '../../src/archives/archive-store.ts'
import { type CollectOptions, collectGarbage } from '../../src/archives/collect-garbage.ts'

/** Lets two weeks pass for the archives that nothing needs. */
export async function ageUnusedArchives(db: pg.Pool): Promise<void> {
  await db.query(
    `update stored_archive s set unused_since = now() - interval '15 days'
      where not exists (select from archive_reference r where r.sha256 = s.sha256 and r.keeps_file)`,
  )
}

/** Collects garbage after these two weeks. */
export async function collectAgedGarbage(db: pg.Pool, store: ArchiveStore, options: CollectOptions = {}) {
  await ageUnusedArchives(db)
  return collectGarbage(db, store, options)
}

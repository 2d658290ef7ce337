import type pg from 'pg'
import type { Queryable } from '../../src/database/database.ts'
import { dropRows } from './rows.ts'

/** Forgets all archives, with the versions that have them. Their files stay. */
export async function forgetArchives(db: Queryable): Promise<void> {
  for (const table of ['package_version', 'mirrored_package', 'archive', 'stored_archive'])
    await dropRows(db, table)
}

/** Lists the hashes of all archives that versions may have. */
export async function listArchives(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ sha256: string }>(
    `select encode(sha256, 'hex') as sha256 from archive order by sha256`,
  )
  return rows.map(({ sha256 }) => sha256)
}

/** What svc knows about the file of an archive. */
export interface StoredArchiveRow {
  sha256: string
  problem: string | null
  /** Whether it was checked less than a minute ago. */
  isRecent: boolean
}

/** Lists the files of archives that svc knows of, in the order of their hashes. */
export async function storedArchiveRows(db: Queryable): Promise<StoredArchiveRow[]> {
  const { rows } = await db.query<StoredArchiveRow>(
    `select encode(sha256, 'hex') as sha256, problem, checked_at > now() - interval '1 minute' as "isRecent"
       from stored_archive order by sha256`,
  )
  return rows
}

/** Adds an archive that no version has. */
export async function anUnusedArchive(db: Queryable): Promise<void> {
  await db.query(
    `insert into archive (sha256, sha1, size) values (sha256('x'), substr(sha256('x'), 1, 20), 1)`,
  )
}

/** Adds files that are missing in the store, and whose last check was days ago. */
export async function addMissingFiles(db: Queryable, count: number, days: number): Promise<void> {
  await db.query(
    `insert into stored_archive (sha256, size, checked_at)
     select sha256(i::text::bytea), 1, now() - make_interval(days => $2) from generate_series(1, $1::int) i`,
    [count, days],
  )
}

/** Lets the last check of files be this long ago: of all, or of those with these hashes. */
export async function ageChecks(
  db: Queryable,
  ago: string,
  hashes: readonly string[] | null = null,
): Promise<void> {
  await db.query(
    `update stored_archive set checked_at = now() - $1::interval
      where $2::text[] is null or encode(sha256, 'hex') = any ($2)`,
    [ago, hashes],
  )
}

/** Records a wrong size: of an archive, or of its file. */
export async function misrecordSize(
  db: Queryable,
  of: 'archive' | 'stored_archive',
  sha256: string,
): Promise<void> {
  await db.query(`update ${of} set size = size + 1 where encode(sha256, 'hex') = $1`, [sha256])
}

/** Lets the file of an archive have been unused for days. */
export async function markUnused(db: Queryable, sha256: string, days = 0): Promise<void> {
  await db.query(
    `update stored_archive set unused_since = now() - $2::float8 * interval '1 day' where encode(sha256, 'hex') = $1`,
    [sha256, days],
  )
}

/** Lets all files that are unused have been so for days. */
export async function setUnusedDays(db: Queryable, days: number): Promise<void> {
  await db.query(
    `update stored_archive set unused_since = now() - $1::float8 * interval '1 day' where unused_since is not null`,
    [days],
  )
}

/** Records that all files that are used are damaged. */
export async function markDamaged(db: Queryable): Promise<void> {
  await db.query(`update stored_archive set problem = 'damaged' where unused_since is null`)
}

/** Records what a process leaves that was killed hours ago while it kept the file of an archive. */
export async function leaveKeeper(db: Queryable, sha256: string, hours: number): Promise<void> {
  await db.query(
    `update stored_archive set keepers = 1, last_kept_at = now() - make_interval(hours => $2)
      where encode(sha256, 'hex') = $1`,
    [sha256, hours],
  )
}

/** Runs `work` while the deletion of an archive waits before it ends. */
export async function whileDeletionWaits(
  db: pg.Pool,
  sha256: string,
  work: () => Promise<unknown>,
): Promise<void> {
  const holder = await db.connect()
  try {
    await holder.query('select pg_advisory_lock(42)')
    await holder.query(
      `create function wait() returns trigger language plpgsql
         as $$ begin perform pg_advisory_xact_lock(42); return old; end $$;
       create trigger wait before delete on archive for each row
         when (encode(old.sha256, 'hex') = '${sha256}') execute function wait()`,
    )
    await work()
  } finally {
    await holder.query('select pg_advisory_unlock(42)')
    holder.release()
    await db.query('drop function wait cascade')
  }
}

/** The claim of a database on its archive store, as it is stored. */
export interface StoreClaimRow {
  incarnation: string
  counter: string
  nonce: string
  previousNonce: string
  keptAt: Date
  lostBecause: string | null
}

/** Returns the claim of the database on its archive store. */
export async function storeClaim(db: Queryable): Promise<StoreClaimRow> {
  const { rows } = await db.query<StoreClaimRow>(
    `select incarnation, counter, nonce, previous_nonce as "previousNonce", kept_at as "keptAt",
            lost_because as "lostBecause" from store_claim`,
  )
  return rows[0] as StoreClaimRow
}

/** Brings a claim back to a former state, as a restored backup or a standby does. */
export async function setStoreClaim(
  db: Queryable,
  { counter, nonce, previousNonce }: StoreClaimRow,
  keptAt: Date | null = null,
): Promise<void> {
  await db.query(
    'update store_claim set counter = $1, nonce = $2, previous_nonce = $3, kept_at = coalesce($4::timestamptz, kept_at)',
    [counter, nonce, previousNonce, keptAt],
  )
}

/** Lets nobody keep the claim, and nobody have lost it. */
export async function freeStoreClaim(db: Queryable): Promise<void> {
  await db.query(`update store_claim set kept_at = '-infinity', lost_because = null`)
}

/** Lets seconds pass since the claim was kept. */
export async function ageStoreClaim(db: Queryable, seconds: number): Promise<void> {
  await db.query('update store_claim set kept_at = kept_at - make_interval(secs => $1)', [seconds])
}

/** Returns the id of the installation that a database belongs to. */
export async function installationId(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ id: string }>('select id from installation')
  return rows[0]?.id ?? ''
}

/** Gives the database the id of another installation. */
export async function changeInstallationId(db: Queryable): Promise<void> {
  await db.query('update installation set id = gen_random_uuid()')
}

/** Records a file whose archive no version has, and what is wrong with it. */
export async function aStoredFile(db: Queryable, size: number, problem: string): Promise<void> {
  await db.query(`insert into stored_archive (sha256, size, problem) values (sha256('x'), $1, $2)`, [
    size,
    problem,
  ])
}

/**
 * Adds to a repository two rows of each kind that refers to an archive: one that needs the file, and one that does not. Each
 * has an archive of its own. Returns the bytes of those that are needed.
 */
export async function addReferences(db: Queryable, repository: { id: string }): Promise<number> {
  await db.query(
    `with numbered as (select n, sha256(('referred' || n)::bytea) as sha256 from generate_series(0, 7) n),
          a as (insert into archive (sha256, sha1, size) select sha256, substr(sha256, 1, 20), 1 << n from numbered),
          p as (insert into package (repository_id, name) values ($1, 'referred/lib') returning id),
          v as (
            insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256,
                                         deleted_at, purged_at)
            select p.id, n || '.0.0', n || '.0.0', n || '.0.0.0', false, n, '{}', sha256, gone, gone
              from p, numbered cross join lateral (select case n when 1 then now() end) as purge (gone) where n < 2
            returning id, purged_at),
          f as (insert into former_archive (version_id, sha256)
                select v.id, sha256 from v join numbered on n = case when purged_at is null then 2 else 3 end),
          m as (insert into mirrored_package (repository_id, name) values ($1, 'mirrored/lib') returning id),
          u as (insert into mirrored_archive (package_id, version_path, reference, version, normalized, type, url, sha256, is_stored)
                select m.id, n, n, n || '.0.0', n || '.0.0.0', 'zip', 'https://a.example', sha256, n = 4
                  from m, numbered where n in (4, 5))
     insert into staged_version (repository_id, package_name, version, composer, normalized, is_dev, metadata, readme_format,
                                 readme_content, sha256, state, stager, decided_at)
     select $1, 'staged/lib', n || '.0.0', n || '.0.0', n || '.0.0.0', false, '{}', 'none', '', sha256,
            case n when 6 then 'staged' else 'rejected' end, '{}', case n when 7 then now() end
       from numbered where n > 5`,
    [repository.id],
  )
  return 1 + 4 + 16 + 64
}

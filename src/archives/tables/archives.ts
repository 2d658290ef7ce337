import type pg from 'pg'
import { advisoryLocks, type Queryable } from '../../database/database.ts'

/** The hashes of an archive, in lower-case hex, and its size in bytes. */
export interface ArchiveDigest {
  sha256: string
  sha1: string
  size: number
}

/**
 * The advisory lock of archives. A transaction that adds a reference to an archive shares the lock. A garbage collection
 * holds the lock alone while it removes archives, so no reference is added between its check and the removal.
 */
export const collectionLock = advisoryLocks.archives

/** Lets this transaction remove archives. Waits for transactions that are adding a reference to an archive. */
export async function lockCollection(tx: pg.PoolClient): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [collectionLock])
}

/**
 * Inserts the row of an archive, whose bytes are already stored. Locks an existing row, so that a garbage collection
 * cannot delete it before this transaction inserts the version.
 */
export async function insertArchive(tx: pg.PoolClient, { sha256, sha1, size }: ArchiveDigest): Promise<void> {
  await tx.query({
    name: 'insert-archive',
    text: `insert into archive (sha256, sha1, size)
           select decode($1, 'hex'), decode($2, 'hex'), $3 from pg_advisory_xact_lock_shared($4)
           on conflict (sha256) do update set size = excluded.size where false`,
    values: [sha256, sha1, size, collectionLock],
  })
}

/**
 * Deletes the rows of those of the given archives to which nothing refers, and returns those whose file is needed (view
 * `archive_reference`). A purged version still refers to its archive, because the API shows size and hash. Skips rows that a
 * running publication has locked. Throws a foreign key violation when a publication commits at the same moment. Hashes are in
 * lower-case hex.
 */
export async function deleteOrphansAmong(
  db: Queryable,
  sha256s: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ sha256: string }>(
    `with asked as (
       select decode(hex, 'hex') as sha256 from unnest($1::text[]) as hex
     ), deleted as (
       delete from archive where sha256 in (
         select a.sha256 from archive a join asked using (sha256)
          where not exists (select from archive_reference r where r.sha256 = a.sha256)
            for update of a skip locked)
     )
     select encode(sha256, 'hex') as sha256 from asked
      where exists (select from archive_reference r where r.sha256 = asked.sha256 and r.keeps_file)`,
    [sha256s],
  )
  return new Set(rows.map(({ sha256 }) => sha256))
}

/**
 * Deletes rows of archives without a reference, among the next thousand rows after a hash. Their files may already be
 * missing. Returns the last hash of the thousand, or null at the end.
 */
export async function deleteOrphanedArchives(db: Queryable, after: string): Promise<string | null> {
  const { rows } = await db.query<{ last: string | null }>(
    `with batch as materialized (
       select sha256 from archive where sha256 > decode($1, 'hex') order by sha256 limit 1000
     ), deleted as (
       delete from archive where sha256 in (
         select a.sha256 from archive a join batch using (sha256)
          where not exists (select from archive_reference r where r.sha256 = a.sha256)
            for update of a skip locked)
     )
     select encode(sha256, 'hex') as last from batch order by sha256 desc limit 1`,
    [after],
  )
  return rows[0]?.last ?? null
}

/** Returns whether the database has any of the given archives. */
export async function isAnyArchiveKnown(db: Queryable, sha256s: readonly string[]): Promise<boolean> {
  const { rows } = await db.query<{ known: boolean }>(
    `select exists (select from archive where sha256 in (select decode(hex, 'hex') from unnest($1::text[]) as hex)) as known`,
    [sha256s],
  )
  return rows[0]?.known === true
}

/** Returns the archive of the newest version that is not purged, in lower-case hex. Null when there is none. */
export async function findNewestArchive(db: Queryable): Promise<string | null> {
  const { rows } = await db.query<{ sha256: string }>(
    `select encode(sha256, 'hex') as sha256
       from package_version where purged_at is null order by id desc limit 1`,
  )
  return rows[0]?.sha256 ?? null
}

/** Lists archives whose files are needed: those of the latest versions, and those that were stored or checked last. */
export async function listNewestArchives(db: Queryable, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ sha256: string }>(
    `select encode(sha256, 'hex') as sha256
       from (select sha256 from package_version where purged_at is null order by id desc limit $1) as published
      union
     select encode(sha256, 'hex')
       from (select s.sha256 from stored_archive s
              where exists (select from archive_reference r where r.sha256 = s.sha256 and r.keeps_file)
              order by s.checked_at desc limit $1) as stored`,
    [limit],
  )
  return rows.map(({ sha256 }) => sha256)
}

/** An archive whose file is needed, and its expected size. */
export interface ExpectedArchive {
  sha256: string
  size: number
  /** The versions that need the file, such as `acme/php: acme/lib 1.0.0`. At most ten. */
  versions: string[]
}

/** Lists the next thousand archives whose file is needed, after a hash and in the order of the hashes. */
export async function listArchivesAfter(db: Queryable, sha256: string): Promise<ExpectedArchive[]> {
  const { rows } = await db.query<{ sha256: string; size: string; versions: string[] }>(
    `select encode(a.sha256, 'hex') as sha256, a.size,
            array(
              select g.name || '/' || r.name || ': ' || n.package_name || ' ' || n.version
                from archive_reference n
                join repository r on r.id = n.repository_id
                join repository_group g on g.id in (r.group_id, r.deleted_from_id)
               where n.sha256 = a.sha256 and n.keeps_file
               order by 1 limit 10) as versions
       from archive a
      where a.sha256 > decode($1, 'hex')
        and exists (select from archive_reference f where f.sha256 = a.sha256 and f.keeps_file)
      order by a.sha256
      limit 1000`,
    [sha256],
  )
  return rows.map((row) => ({ ...row, size: Number(row.size) }))
}

/** Counts the archives in the database and their bytes. */
export async function countArchives(db: Queryable): Promise<{ archives: number; bytes: number }> {
  const { rows } = await db.query<{ archives: number; bytes: number }>(
    'select count(*)::int as archives, coalesce(sum(size), 0)::float8 as bytes from archive',
  )
  return rows[0] as { archives: number; bytes: number }
}

/** The bytes of the archives of a group: of its own and staged versions, and of its upstreams. Equal archives count once. */
export interface GroupBytes {
  stored: number
  mirrored: number
}

/**
 * Adds up the bytes of the archives of a group. It names the tables of the view `archive_reference` again, because the view
 * finds the rows of an archive, and not those of a repository. A test holds the two together.
 */
export async function measureGroup(db: Queryable, groupId: string): Promise<GroupBytes> {
  const { rows } = await db.query<GroupBytes>(
    `with repositories as materialized (select id from repository where group_id = $1 or deleted_from_id = $1)
     select (select coalesce(sum(size), 0)::float8 from archive
              where sha256 in (select v.sha256
                                 from repositories r
                                 join package p on p.repository_id = r.id
                                 join package_version v on v.package_id = p.id
                                where v.purged_at is null
                               union all
                               select f.sha256
                                 from repositories r
                                 join package p on p.repository_id = r.id
                                 join package_version v on v.package_id = p.id
                                 join former_archive f on f.version_id = v.id
                                where v.purged_at is null
                               union all
                               select s.sha256
                                 from repositories r join staged_version s on s.repository_id = r.id
                                where s.state = 'staged')) as stored,
            (select coalesce(sum(size), 0)::float8 from archive
              where sha256 in (select m.sha256
                                 from repositories r
                                 join mirrored_package p on p.repository_id = r.id
                                 join mirrored_archive m on m.package_id = p.id
                                where m.is_stored)) as mirrored`,
    [groupId],
  )
  return rows[0] as GroupBytes
}

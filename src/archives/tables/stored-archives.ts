import type pg from 'pg'
import { lazily, type Queryable } from '../../database/database.ts'
import type { ProblemKind, ReceivedArchive } from '../archive-store.ts'

/** How long nothing has needed an archive when a garbage collection removes it. */
const unusedDays = 14
/** An SQL condition: the archive `s` may be removed now. */
const isDue = `s.unused_since < now() - interval '${unusedDays} days'
  and not exists (select from archive_reference r where r.sha256 = s.sha256 and r.keeps_file)`

/** An SQL condition: an upload keeps the archive `s`. One that a crash interrupted counts for a day. */
const hasKeepers = `(s.keepers > 0 and s.last_kept_at > now() - interval '1 day')`

/**
 * Records an archive before it is kept, so that a garbage collection may remove it when nothing needs it. Also counts the
 * upload that keeps it, until `endKeeping`. Waits while a purge removes the file. Returns whether the last check of the
 * archive found a problem.
 */
export async function recordArchive(
  db: Queryable,
  { sha256, size }: Pick<ReceivedArchive, 'sha256' | 'size'>,
): Promise<{ hadProblem: boolean }> {
  const { rows } = await db.query<{ hadProblem: boolean }>({
    name: 'record-archive',
    text: `with ${lazily}
           insert into stored_archive as s (sha256, size, keepers, last_kept_at)
           select decode($1, 'hex'), $2, 1, now() where exists (select from lazily)
           on conflict (sha256) do update
              set unused_since = null, size = excluded.size, last_kept_at = now(),
                  keepers = case when ${hasKeepers} then s.keepers else 0 end + 1
           returning problem is not null as "hadProblem"`,
    values: [sha256, size],
  })
  return { hadProblem: rows[0]?.hadProblem === true }
}

/** Ends the count of an upload that keeps an archive. */
export async function endKeeping(db: Queryable, sha256: string): Promise<void> {
  await db.query({
    name: 'end-keeping',
    text: `with ${lazily}
           update stored_archive set keepers = greatest(keepers - 1, 0)
            where sha256 = decode($1, 'hex') and exists (select from lazily)`,
    values: [sha256],
  })
}

/**
 * Lists recorded archives of a package's purged versions that no version and no mirror needs, after a hash and in the order
 * of the hashes.
 */
export async function listPurgedArchives(
  db: Queryable,
  packageId: string,
  after: string,
  limit: number,
): Promise<string[]> {
  const { rows } = await db.query<{ sha256: string }>(
    `select encode(s.sha256, 'hex') as sha256 from stored_archive s
      where s.sha256 > decode($2, 'hex')
        and s.sha256 in (select sha256 from package_version where package_id = $1 and purged_at is not null
                         union all
                         select f.sha256 from former_archive f join package_version v on v.id = f.version_id
                          where v.package_id = $1 and v.purged_at is not null)
        and not exists (select from archive_reference r where r.sha256 = s.sha256 and r.keeps_file)
      order by s.sha256 limit $3`,
    [packageId, after, limit],
  )
  return rows.map(({ sha256 }) => sha256)
}

/**
 * Forgets those of the archives that nothing needs, and returns them: their files must be removed before the transaction
 * ends. `kept` is the number of those that only a running upload needs. The transaction holds the lock of `lockCollection`.
 */
export async function forgetUnneededArchives(
  tx: pg.PoolClient,
  sha256s: readonly string[],
): Promise<{ forgotten: string[]; kept: number }> {
  const wanted = `s.sha256 in (select decode(hex, 'hex') from unnest($1::text[]) as hex)`
  // Lock the rows first, so that the next statement sees every upload that has begun.
  await tx.query(`select from stored_archive s where ${wanted} order by s.sha256 for update`, [sha256s])
  const { rows } = await tx.query<{ forgotten: string[]; kept: number }>(
    `with unneeded as materialized (
       select s.sha256, ${hasKeepers} as is_kept from stored_archive s
        where ${wanted}
          and not exists (select from archive_reference r where r.sha256 = s.sha256 and r.keeps_file)
          and not exists (select from browser_upload u where u.sha256 = s.sha256
                             and u.discarded_at is null and u.expires_at > now())
     ), forgotten as (
       delete from stored_archive where sha256 in (select sha256 from unneeded where not is_kept) returning sha256
     )
     select coalesce((select json_agg(encode(sha256, 'hex')) from forgotten), '[]') as forgotten,
            (select count(*)::int from unneeded where is_kept) as kept`,
    [sha256s],
  )
  return rows[0] as { forgotten: string[]; kept: number }
}

/** Stores that an archive was compared with its hash now, and with what result. Null: it is intact. */
export async function noteArchiveCheck(
  db: Queryable,
  sha256: string,
  problem: ProblemKind | null,
): Promise<void> {
  await db.query(
    `update stored_archive set checked_at = now(), problem = $2 where sha256 = decode($1, 'hex')`,
    [sha256, problem],
  )
}

/**
 * Lists archives that are due for a check, those with the oldest check first: those with a problem after half an hour, in case
 * somebody has repaired them, and then those that nobody has checked for the given days.
 */
export async function listArchivesToCheck(
  db: Queryable,
  days: number,
  limit: number,
): Promise<CheckedArchive[]> {
  const columns = `encode(sha256, 'hex') as sha256, size::float8 as size, problem`
  const { rows } = await db.query<CheckedArchive>(
    `(select ${columns} from stored_archive
       where problem is not null and checked_at < now() - interval '30 minutes'
       order by checked_at limit $2)
     union all
     (select ${columns} from stored_archive
       where problem is null and unused_since is null and checked_at < now() - make_interval(days => $1)
       order by checked_at limit $2)
     limit $2`,
    [days, limit],
  )
  return rows
}

/** A recorded archive, and what its last check found. */
export interface CheckedArchive extends RecordedArchive {
  problem: ProblemKind | null
}

/** The state of the stored archives after their last checks. */
export interface ArchiveHealth {
  /** How many needed archives are missing or damaged. */
  problems: number
  /** When the archive was checked that was not checked for the longest time. Null without archives. */
  checkedSince: Date | null
}

/** Reads the state of the stored archives. */
export async function findArchiveHealth(db: Queryable): Promise<ArchiveHealth> {
  const { rows } = await db.query<ArchiveHealth>(
    `select (select count(*)::int from stored_archive s
              where s.problem is not null
                and exists (select from archive_reference r where r.sha256 = s.sha256 and r.keeps_file)) as problems,
            (select checked_at from stored_archive where unused_since is null order by checked_at limit 1) as "checkedSince"`,
  )
  return rows[0] as ArchiveHealth
}

/** The archives that a garbage collection removes, and all recorded ones. */
export interface DueArchives {
  due: number
  dueBytes: number
  all: number
}

/** Counts the archives that may be removed now. */
export async function countDueArchives(db: Queryable): Promise<DueArchives> {
  const { rows } = await db.query<DueArchives>(
    `select (count(*) filter (where is_due))::int as due,
            coalesce(sum(size) filter (where is_due), 0)::float8 as "dueBytes", count(*)::int as "all"
       from (select s.size, ${isDue} as is_due from stored_archive s) as recorded`,
  )
  return rows[0] as DueArchives
}

/** Counts the recorded archives and their bytes, and those with a problem that something needs. */
export async function countStoredArchives(db: Queryable): Promise<{
  archives: number
  bytes: number
  problems: Record<'missing' | 'damaged' | 'wrong size', number>
}> {
  const problems = (kind: string) =>
    `'${kind}', count(*) filter (where problem = '${kind}' and unused_since is null)`
  const { rows } = await db.query(
    `select count(*)::int as archives, coalesce(sum(size), 0)::float8 as bytes,
            json_build_object(${['missing', 'damaged', 'wrong size'].map(problems).join(', ')}) as problems
       from stored_archive`,
  )
  return rows[0]
}

/** A recorded archive, with the size in bytes. */
export interface RecordedArchive {
  sha256: string
  size: number
}

/** Lists archives that may be removed now, after a hash and in the order of the hashes. */
export async function listDueArchives(
  db: Queryable,
  after: string,
  limit: number,
): Promise<RecordedArchive[]> {
  const { rows } = await db.query<RecordedArchive>(
    `select encode(s.sha256, 'hex') as sha256, s.size::float8 as size from stored_archive s
      where s.sha256 > decode($1, 'hex') and ${isDue}
      order by s.sha256 limit $2`,
    [after, limit],
  )
  return rows
}

/** Deletes the rows of archives whose files were removed. */
export async function deleteStoredArchives(db: Queryable, sha256s: readonly string[]): Promise<void> {
  await db.query(
    `delete from stored_archive where sha256 in (select decode(hex, 'hex') from unnest($1::text[]) as hex)`,
    [sha256s],
  )
}

/**
 * Stores which of the next thousand recorded archives are unused, after a hash. Returns the last hash of the thousand, or
 * null at the end.
 */
export async function markUnusedArchives(db: Queryable, after: string): Promise<string | null> {
  const { rows } = await db.query<{ last: string | null }>(
    `with batch as materialized (
       select s.sha256, exists (select from archive_reference r where r.sha256 = s.sha256 and r.keeps_file) as is_used
         from stored_archive s where s.sha256 > decode($1, 'hex') order by s.sha256 limit 1000
     ), marked as (
       update stored_archive s set unused_since = case when b.is_used then null else now() end
         from batch b where b.sha256 = s.sha256 and b.is_used = (s.unused_since is not null)
     )
     select encode(sha256, 'hex') as last from batch order by sha256 desc limit 1`,
    [after],
  )
  return rows[0]?.last ?? null
}

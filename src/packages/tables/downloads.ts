import type pg from 'pg'
import { advisoryLocks, type Queryable } from '../../database/database.ts'
import type { Job } from '../../jobs/job.ts'

/** How many rows one statement changes. */
const rowsPerStatement = 2_000

/** For how many days the counts are kept by day. Older days are added to their month. */
const keptDays = 90
/** The largest count that every JSON parser reads exactly. */
const maxCount = Number.MAX_SAFE_INTEGER

/** How often a version of a package was downloaded. */
export interface CountedDownload {
  repositoryId: string
  packageName: string
  /** The version in the normalized form that Composer sends. */
  normalized: string
  count: number
}

/** Returns SQL for a count that is a JSON number in every client. */
export const asCount = (sql: string) => `least(coalesce(${sql}, 0), ${maxCount})::float8`

/**
 * Adds downloads to today's counts (UTC) of versions and packages, and to their totals. Ignores packages and versions that
 * the repositories do not have.
 */
export async function addDownloads(db: Queryable, downloads: readonly CountedDownload[]): Promise<void> {
  await db.query({
    name: 'add-downloads',
    text: `with counted as materialized (
             select v.package_id, v.id as version_id, (now() at time zone 'utc')::date as day, sum(i.count) as count
               from unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[])
                      as i (repository_id, name, normalized, count),
                    -- Let only one process run at a time, because two processes that add counts could deadlock.
                    (select pg_advisory_xact_lock(${advisoryLocks.downloads})) as turn
               join lateral (
                 select v.package_id, v.id from package p join package_version v on v.package_id = p.id
                  where p.repository_id = i.repository_id and p.name = i.name and v.normalized = i.normalized
               ) v on true
              group by v.package_id, v.id
           ), of_package as materialized (
             select package_id, day, sum(count) as count from counted group by package_id, day
           ), version_days as (
             insert into package_download as d (version_id, day, count)
             select version_id, day, count from counted
             on conflict (version_id, day) do update set count = d.count + excluded.count
           ), version_totals as (
             insert into version_download_total as t (version_id, count)
             select version_id, count from counted
             on conflict (version_id) do update set count = t.count + excluded.count
           ), package_days as (
             insert into package_download_day as d (package_id, day, count)
             select package_id, day, count from of_package
             on conflict (package_id, day) do update set count = d.count + excluded.count
           )
           insert into package_download_total as t (package_id, count)
           select package_id, count from of_package
           on conflict (package_id) do update set count = t.count + excluded.count`,
    values: [
      downloads.map(({ repositoryId }) => repositoryId),
      downloads.map(({ packageName }) => packageName),
      downloads.map(({ normalized }) => normalized),
      downloads.map(({ count }) => count),
    ],
  })
}

/**
 * Adds days that are older than 90 days to their months, and returns how many. It takes at most `limit` rows. Each row
 * is one day of a version. Totals do not change.
 */
export async function rollDownloads(db: Queryable, limit: number): Promise<number> {
  const { rows } = await db.query<{ rolled: number }>(
    `with old as (
       delete from package_download
        where (version_id, day) in (
          select version_id, day from package_download
           where day < (now() at time zone 'utc')::date - $1::int
           order by day, version_id limit $2
             for update skip locked)
       returning version_id, day, count
     ), months as (
       insert into package_download_month as m (version_id, month, count)
       select version_id, date_trunc('month', day)::date, sum(count) from old group by 1, 2 order by 1, 2
       on conflict (version_id, month) do update set count = m.count + excluded.count
     )
     select count(*)::int as rolled from old`,
    [keptDays, limit],
  )
  return rows[0]?.rolled ?? 0
}

/** The downloads of one day (UTC). */
export interface DailyDownloads {
  /** The day, such as 2026-01-31. */
  day: string
  count: number
}

/** The downloads of one month (UTC), without the days that are still listed by day. */
export interface MonthlyDownloads {
  /** The month, such as 2026-01. */
  month: string
  count: number
}

/**
 * Lists a version's downloads on each day that had any, the latest first. `listMonthlyDownloads` has the older days.
 */
export async function listDailyDownloads(db: Queryable, versionId: string): Promise<DailyDownloads[]> {
  const { rows } = await db.query<DailyDownloads>(
    `select day::text, ${asCount('count')} as count from package_download
      where version_id = $1 order by day desc limit 400`,
    [versionId],
  )
  return rows
}

/**
 * Lists a version's downloads in each month that had any, the latest 120 months first. Includes days that are no
 * longer kept.
 */
export async function listMonthlyDownloads(db: Queryable, versionId: string): Promise<MonthlyDownloads[]> {
  const { rows } = await db.query<MonthlyDownloads>(
    `select to_char(month, 'YYYY-MM') as month, ${asCount('count')} as count from package_download_month
      where version_id = $1 order by package_download_month.month desc limit 120`,
    [versionId],
  )
  return rows
}

/** Lists the downloads of a package on each of the last days (UTC), today last. */
export async function listPackageDays(
  db: Queryable,
  packageId: string,
  days: number,
): Promise<DailyDownloads[]> {
  const { rows } = await db.query<DailyDownloads>(
    `select wanted.day::text as day, ${asCount('d.count')} as count
       from (select (now() at time zone 'utc')::date - ago as day from generate_series(0, $2::int - 1) ago) wanted
       left join package_download_day d on d.package_id = $1 and d.day = wanted.day
      order by wanted.day`,
    [packageId, days],
  )
  return rows
}

/** Removes days of packages that are older than 90 days, at most `limit`. Returns how many. */
async function deleteOldDays(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from package_download_day where (package_id, day) in (
       select package_id, day from package_download_day
        where day < (now() at time zone 'utc')::date - $1::int order by day limit $2 for update skip locked)`,
    [keptDays, limit],
  )
  return rowCount ?? 0
}

/** Adds days of downloads that are older than 90 days to their months. */
export const rollDownloadsJob: Job = {
  name: 'roll-downloads',
  everySeconds: 6 * 3600,
  async run({ db }, _data, signal) {
    while ((await rollDownloads(db, rowsPerStatement)) > 0) signal.throwIfAborted()
    while ((await deleteOldDays(db, rowsPerStatement)) > 0) signal.throwIfAborted()
  },
}

/** Gives a new package its place in the list by downloads. */
export async function rankNewPackage(
  tx: pg.PoolClient,
  { id, repositoryId }: { id: string; repositoryId: string },
): Promise<void> {
  await tx.query('insert into package_rank (package_id, repository_id) values ($1, $2)', [id, repositoryId])
}

/**
 * Copies the changed totals of packages to their ranks, at most `limit`, and returns how many. Lists by downloads read
 * the ranks through an index. An index on the totals would change with every download.
 */
export async function rankPackages(db: Queryable, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `update package_rank r set downloads = changed.count
       from (select t.package_id, t.count
               from package_download_total t join package_rank old using (package_id)
              where old.downloads <> t.count
              order by t.package_id limit $1) changed
      where r.package_id = changed.package_id`,
    [limit],
  )
  return rowCount ?? 0
}

/** Brings the order of packages by downloads up to date. */
export const rankPackagesJob: Job = {
  name: 'rank-packages',
  everySeconds: 600,
  async run({ db }, _data, signal) {
    while ((await rankPackages(db, 20_000)) > 0) signal.throwIfAborted()
  },
}

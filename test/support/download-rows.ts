import { onTestFinished } from 'vitest'
import type { Queryable } from '../../src/database/database.ts'

/** Adds downloads of past days to the counts of a version. `ago` is a number of days. */
export async function addPastDownloads(
  db: Queryable,
  { repositoryId, name = 'acme/lib', version }: { repositoryId: string; name?: string; version: string },
  days: readonly [ago: number, count: number][],
): Promise<void> {
  await db.query(
    `insert into package_download as d (version_id, day, count)
     select v.id, (now() at time zone 'utc')::date - ago, count
       from package p join package_version v on v.package_id = p.id, unnest($4::int[], $5::bigint[]) as n (ago, count)
      where p.repository_id = $1 and p.name = $2 and v.version = $3
     on conflict (version_id, day) do update set count = d.count + excluded.count`,
    [repositoryId, name, version, days.map(([ago]) => ago), days.map(([, count]) => count)],
  )
  await sumUpDownloads(db)
}

/** Sets the days of packages and all totals to the sums of the days of versions, which a test has written. */
export async function sumUpDownloads(db: Queryable): Promise<void> {
  await db.query(
    `with downloaded as materialized (
       select distinct v.package_id from package_download d join package_version v on v.id = d.version_id
     ), version_sum as materialized (
       select v.package_id, v.id as version_id,
              (select coalesce(sum(count), 0) from package_download where version_id = v.id)
              + (select coalesce(sum(count), 0) from package_download_month where version_id = v.id) as count
         from downloaded join package_version v using (package_id)
     ), version_totals as (
       insert into version_download_total as t (version_id, count)
       select version_id, count from version_sum where count > 0
       on conflict (version_id) do update set count = excluded.count where t.count <> excluded.count
     ), package_totals as (
       insert into package_download_total as t (package_id, count)
       select package_id, sum(count) from version_sum group by package_id
       on conflict (package_id) do update set count = excluded.count where t.count <> excluded.count
     )
     insert into package_download_day as t (package_id, day, count)
     select v.package_id, d.day, sum(d.count)
       from package_download d join package_version v on v.id = d.version_id
      group by v.package_id, d.day
     on conflict (package_id, day) do update set count = excluded.count where t.count <> excluded.count`,
  )
}

/** The downloads of a package on a day, as they are stored. */
export interface DownloadDayRow {
  name: string
  count: number
  daysAgo: number
}

/** Lists the downloads of the versions of a repository by their days, in the order of the packages. */
export async function downloadDays(db: Queryable, repository: { id: string }): Promise<DownloadDayRow[]> {
  const { rows } = await db.query<DownloadDayRow>(
    `select p.name, d.count::int, (now() at time zone 'utc')::date - d.day as "daysAgo" from package_download d
       join package_version v on v.id = d.version_id join package p on p.id = v.package_id
      where p.repository_id = $1 order by p.name, d.day`,
    [repository.id],
  )
  return rows
}

/** Counts the totals of downloads whose versions or packages no longer exist. */
export async function countTotalsOfNothing(db: Queryable): Promise<number> {
  const { rows } = await db.query(
    `select from version_download_total t where not exists (select from package_version where id = t.version_id)
     union all
     select from package_download_total t where not exists (select from package where id = t.package_id)`,
  )
  return rows.length
}

/** Returns the recorded downloads of a repository, by the kind of the downloader. */
export async function recordedDownloads(
  db: Queryable,
  repository: { id: string },
): Promise<[kind: string, count: number][]> {
  const { rows } = await db.query<{ kind: string; count: number }>(
    'select kind, count::int from recorded_download where repository_id = $1 order by id',
    [repository.id],
  )
  return rows.map(({ kind, count }) => [kind, count])
}

/** Records an anonymous download of acme/lib 1.0.0 on each of these days. */
export async function addRecordedDownloads(
  db: Queryable,
  repository: { id: string },
  daysAgo: number[],
): Promise<void> {
  await db.query(
    `insert into recorded_download (day, repository_id, package, version, kind, holder_id, count)
     select (now() at time zone 'utc')::date - days, $1, 'acme/lib', '1.0.0', 'anonymous', 0, 1 from unnest($2::int[]) days`,
    [repository.id, daysAgo],
  )
}

/** Moves the recorded downloads of a version to a day. */
export async function moveRecordedDownloads(db: Queryable, version: string, day: string): Promise<void> {
  await db.query('update recorded_download set day = $2 where version = $1', [version, day])
}

/** Sets the totals of downloads of the packages of a repository, by their names. */
export async function setDownloadTotals(
  db: Queryable,
  repository: { id: string },
  totals: Record<string, number>,
): Promise<void> {
  await db.query(
    `insert into package_download_total (package_id, count)
     select p.id, t.value::bigint from jsonb_each_text($2) t join package p on p.name = t.key
      where p.repository_id = $1`,
    [repository.id, JSON.stringify(totals)],
  )
}

/** Lists how many days ago the packages of a repository have downloads that are kept by their days. */
export async function packageDownloadDays(db: Queryable, repository: { id: string }): Promise<number[]> {
  const { rows } = await db.query<{ days: number }>(
    `select (now() at time zone 'utc')::date - day as days from package_download_day d
       join package p on p.id = d.package_id where p.repository_id = $1 order by day`,
    [repository.id],
  )
  return rows.map(({ days }) => days)
}

/**
 * Lets the downloads of a test be counted and recorded on this day (UTC), although the test may begin before midnight and
 * end after it. Returns the day.
 */
export async function holdDay(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ day: string }>(`select ((now() at time zone 'utc')::date)::text as day`)
  const day = rows[0]?.day ?? ''
  await db.query(
    `create or replace function hold_day() returns trigger language plpgsql as
     $$ begin new.day := tg_argv[0]; return new; end $$`,
  )
  for (const table of ['package_download', 'package_download_day', 'recorded_download'])
    await db.query(
      `create trigger hold_day before insert on ${table} for each row execute function hold_day('${day}')`,
    )
  onTestFinished(async () => {
    await db.query('drop function hold_day() cascade')
  })
  return day
}

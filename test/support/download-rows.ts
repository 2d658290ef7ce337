import type pg from 'pg'
import { recountDownloads } from '../../src/packages/tables/downloads.ts'

/** Adds downloads of past days to the counts of a version. `ago` is a number of days. */
export async function addPastDownloads(
  db: pg.Pool,
  { repositoryId, name = 'acme/lib', version }: { repositoryId: string; name?: string; version: string },
  days: readonly [ago: number, count: number][],
): Promise<void> {
  await addToVersionDays(db, { repositoryId, name, version }, days)
  await recountDownloads(db, '-infinity')
}

/** Adds downloads to the days of a version only, as the previous release does while it runs beside this one. */
export async function addToVersionDays(
  db: pg.Pool,
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
}

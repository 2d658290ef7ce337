import type { Queryable } from '../../database/database.ts'

/** An installation that Composer tells of. */
export interface Installation {
  name: string
  /** Normalised, as Composer sends it. */
  version: string
}

/** Counts installations on today's date (UTC). What the repository does not have is left out. */
export async function countDownloads(
  db: Queryable,
  repositoryId: string,
  installations: readonly Installation[],
): Promise<void> {
  await db.query({
    name: 'count-downloads',
    text: `insert into package_download as d (version_id, day, count)
           select v.id, (now() at time zone 'utc')::date, count(*)
             from unnest($2::text[], $3::text[]) as i (name, version)
             join package p on p.repository_id = $1 and p.name = lower(i.name)
             join package_version v on v.package_id = p.id and v.normalized = i.version
            group by v.id
            order by v.id
           on conflict (version_id, day) do update set count = d.count + excluded.count`,
    values: [
      repositoryId,
      installations.map(({ name }) => name),
      installations.map(({ version }) => version),
    ],
  })
}

/** The installations of one day (UTC). */
export interface DailyDownloads {
  /** Such as 2026-01-31. */
  day: string
  count: number
}

/** A version's installations on each day that had any: the last 400 such days, the latest first. */
export async function listDailyDownloads(db: Queryable, versionId: string): Promise<DailyDownloads[]> {
  const { rows } = await db.query<DailyDownloads>(
    `select day::text, count::float8 as count from package_download
      where version_id = $1 order by day desc limit 400`,
    [versionId],
  )
  return rows
}

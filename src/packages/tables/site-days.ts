import type { Queryable } from '../../database/database.ts'
import type { Job } from '../../jobs/job.ts'

/** What happened on the whole site on one day (UTC). */
export interface SiteDay {
  /** The day, such as 2026-01-31. */
  day: string
  signIns: number
  pushes: number
  /** The downloads of published versions that clients reported, and the archives of packages of upstreams that were sent. */
  pulls: number
  /** The bytes of the stored archives at the end of the day. Null when nobody counted them on that day. */
  archiveBytes: number | null
}

/** How many days have figures: those of the charts. */
export const shownDays = 30

/** Counts today and yesterday again, and those of the last 30 days that were not counted yet. */
export async function countSiteDays(db: Queryable): Promise<void> {
  await db.query(
    `with wanted as (
       select (now() at time zone 'utc')::date - ago as day, ago = 0 as is_today from generate_series(0, $1::int - 1) ago
     ), due as materialized (
       select w.* from wanted w
        where w.day >= (now() at time zone 'utc')::date - 1 or not exists (select from site_day d where d.day = w.day)
     )
     insert into site_day as s (day, sign_ins, pushes, pulls, archive_bytes)
     select due.day, happened.sign_ins, happened.pushes, downloaded.pulls,
            case when due.is_today then (select coalesce(sum(size), 0) from archive) end
       from due
      cross join lateral (
        select count(*) filter (where action = 'sign-in') as sign_ins, count(*) filter (where action = 'publish') as pushes
          from event
         where happened_at >= due.day::timestamp at time zone 'utc'
           and happened_at < (due.day + 1)::timestamp at time zone 'utc') happened
      cross join lateral (
        select (select coalesce(sum(count), 0) from package_download_day where day = due.day)
             + (select coalesce(sum(r.count), 0) from recorded_download r
                 where r.day = due.day
                   and exists (select from mirrored_package m where m.repository_id = r.repository_id and m.name = r.package)
                   and not exists (select from package p where p.repository_id = r.repository_id and p.name = r.package)
               ) as pulls) downloaded
     on conflict (day) do update
       set sign_ins = excluded.sign_ins, pushes = excluded.pushes, pulls = excluded.pulls,
           archive_bytes = coalesce(excluded.archive_bytes, s.archive_bytes)`,
    [shownDays],
  )
}

/** Counts the figures of the administration's charts. */
export const countSiteDaysJob: Job = {
  name: 'count-site-days',
  everySeconds: 3600,
  run: ({ db }) => countSiteDays(db),
}

/** Lists the last 30 days, today last. A day that was not counted yet has zeros. */
export async function listSiteDays(db: Queryable): Promise<SiteDay[]> {
  const { rows } = await db.query<SiteDay>(
    `select wanted.day::text as day, coalesce(d.sign_ins, 0) as "signIns", coalesce(d.pushes, 0) as pushes,
            coalesce(d.pulls, 0)::float8 as pulls, d.archive_bytes::float8 as "archiveBytes"
       from (select (now() at time zone 'utc')::date - ago as day from generate_series(0, $1::int - 1) ago) wanted
       left join site_day d on d.day = wanted.day
      order by wanted.day`,
    [shownDays],
  )
  return rows
}

import type { Queryable } from '../../database/database.ts'

/** The decisions that wait for the admins of a repository. */
export interface WaitingDecisions {
  path: string
  /** Packages that somebody has requested. */
  requests: number
  /** Packages with an archive that has changed at its upstream. */
  changed: number
  /** Packages that two upstreams have. */
  contested: number
}

/** How many repositories the list reads at most. */
const maxRepositories = 1_000

/**
 * Lists the repositories in which a decision about packages of upstreams waits, by path: those that the account
 * administers, or all for null.
 */
export async function listWaitingDecisions(
  db: Queryable,
  accountId: string | null,
  limit: number,
): Promise<WaitingDecisions[]> {
  const { rows } = await db.query<WaitingDecisions>(
    `with mirroring as materialized (
       select distinct u.repository_id as id from upstream u
        where u.removed_at is null
          and ($1::bigint is null
               or u.repository_id in (
                 select repository_id from counted_repository_member where account_id = $1 and role = 'admin'
                  union
                 select r.id from counted_group_member m join repository r on r.group_id = m.group_id
                  where m.account_id = $1 and m.role = 'admin'))
        limit ${maxRepositories}
     ), changed as (
       select m.repository_id as id, count(distinct m.id)::int as count
         from mirrored_archive x join mirrored_package m on m.id = x.package_id
        where x.alarm is not null group by m.repository_id
     ), contested as (
       select m.repository_id as id, count(distinct m.id)::int as count
         from open_contest c join mirrored_package m on m.id = c.package_id group by m.repository_id
     )
     select g.name || '/' || r.name as path, requested.count as requests,
            coalesce(changed.count, 0) as changed, coalesce(contested.count, 0) as contested
       from mirroring
      cross join lateral (
        select count(*)::int from mirrored_package m
         where m.repository_id = mirroring.id and m.requested_at is not null and m.approved_at is null
      ) as requested (count)
       left join changed on changed.id = mirroring.id
       left join contested on contested.id = mirroring.id
       join repository r on r.id = mirroring.id
       join repository_group g on g.id = r.group_id
      where requested.count > 0 or changed.count > 0 or contested.count > 0
      order by path limit $2`,
    [accountId, limit],
  )
  return rows
}

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
     )
     select g.name || '/' || r.name as path,
            (count(*) filter (where w.reason = 'requested'))::int as requests,
            (count(*) filter (where w.reason = 'changed'))::int as changed,
            (count(*) filter (where w.reason = 'contested'))::int as contested
       from mirroring
       join waiting_package w on w.repository_id = mirroring.id
       join repository r on r.id = mirroring.id
       join repository_group g on g.id = r.group_id
      group by g.name, r.name
      order by path limit $2`,
    [accountId, limit],
  )
  return rows
}

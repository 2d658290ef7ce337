import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'

/** A mirrored package about which an earlier upstream is asked. */
export interface AskedPackage {
  packageId: string
  packageName: string
}

/** SQL: nothing is known about the name `e.name` at the earlier upstream `e`, and svc may send it the name. */
const isUnknown = `not exists (select from contested_name c
                                where c.package_id = e.package_id and c.upstream_id = e.upstream_id)
  and (select o.verdict from package_origin(e.repository_id, e.name) o) = 'upstream'`

/** Lists the upstreams that come before the one that serves a package, and may offer it, in the order of a search. */
export async function listEarlierUpstreams(db: Queryable, packageId: string): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>({
    name: 'list-earlier-upstreams',
    text: `select e.upstream_id as id from earlier_upstream e
            where e.package_id = $1 and ${isUnknown} order by e.position, e.upstream_id`,
    values: [packageId],
  })
  return rows.map(({ id }) => id)
}

/** Lists the active upstreams that come before another one of their repository. */
export async function listUpstreamsToAsk(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select h.id from upstream h
      where h.removed_at is null and h.mode <> 'off'
        and exists (select from upstream l where l.repository_id = h.repository_id and l.removed_at is null
                                             and (l.position, l.id) > (h.position, h.id))
      order by h.id`,
  )
  return rows.map(({ id }) => id)
}

/**
 * Lists packages that were used within 30 days and that upstreams after this one serve, by name. It continues after the
 * last name about which the upstream was asked.
 */
export async function listPackagesToAsk(
  db: Queryable,
  upstreamId: string,
  limit: number,
): Promise<AskedPackage[]> {
  const { rows } = await db.query<AskedPackage>(
    `select e.package_id as "packageId", e.name as "packageName"
       from earlier_upstream e
      where e.upstream_id = $1 and e.name > (select asked_until from upstream where id = $1)
        and e.used_on > current_date - 30 and ${isUnknown}
      order by e.name limit $2`,
    [upstreamId, limit],
  )
  return rows
}

/** Stores the last name about which an upstream was asked. The empty text begins from the first name again. */
export async function saveAskedUntil(db: Queryable, upstreamId: string, name: string): Promise<void> {
  await db.query('update upstream set asked_until = $2 where id = $1', [upstreamId, name])
}

/** A name that two upstreams have. */
export interface FoundContest {
  repositoryId: string
  /** The upstream that serves the name. */
  upstreamName: string
  /** The upstream before it that has the name too. */
  earlierName: string
}

/**
 * Stores that an earlier upstream has the name of a package. Null when that is known, or when the upstream is no longer
 * an earlier one. The transaction has locked the row of the package.
 */
export async function insertContest(
  tx: pg.PoolClient,
  packageId: string,
  upstreamId: string,
): Promise<FoundContest | null> {
  const { rows } = await tx.query<FoundContest>(
    `with contest as (
       insert into contested_name (package_id, upstream_id)
       select e.package_id, e.upstream_id from earlier_upstream e where e.package_id = $1 and e.upstream_id = $2
       on conflict do nothing
       returning package_id, upstream_id
     )
     select m.repository_id as "repositoryId", l.name as "upstreamName", h.name as "earlierName"
       from contest c
       join mirrored_package m on m.id = c.package_id
       join upstream l on l.id = m.upstream_id
       join upstream h on h.id = c.upstream_id`,
    [packageId, upstreamId],
  )
  return rows[0] ?? null
}

/** A package that several upstreams have. */
export interface ContestedPackage {
  id: string
  /** The upstream that served the name before. */
  upstream: { id: string; name: string }
  /** The upstreams before it that have the name too. Empty when nothing is to decide. */
  earlier: { id: string; name: string }[]
}

/** Finds a package that an upstream serves, and those that contest it. Null when no upstream serves the package. */
export async function findContestedPackage(
  db: Queryable,
  repositoryId: string,
  packageName: string,
): Promise<ContestedPackage | null> {
  const { rows } = await db.query<ContestedPackage>(
    `select m.id, json_build_object('id', l.id::text, 'name', l.name) as upstream,
            (select coalesce(json_agg(json_build_object('id', h.id::text, 'name', h.name) order by c.position, h.id), '[]')
               from open_contest c join upstream h on h.id = c.upstream_id where c.package_id = m.id) as earlier
       from mirrored_package m join upstream l on l.id = m.upstream_id
      where m.repository_id = $1 and m.name = $2`,
    [repositoryId, packageName],
  )
  return rows[0] ?? null
}

/** SQL: the names of the upstreams that contest the mirrored package `m`, in the order of a search. */
export const contestedBy = `array(select h.name from open_contest c join upstream h on h.id = c.upstream_id
                                   where c.package_id = m.id order by c.position, h.id)`

/** Stores that a package stays with its upstream, although these have it too. */
export async function settleContests(
  tx: pg.PoolClient,
  packageId: string,
  upstreamIds: readonly string[],
): Promise<void> {
  await tx.query(
    'update contested_name set decided_at = now() where package_id = $1 and upstream_id = any ($2) and decided_at is null',
    [packageId, upstreamIds],
  )
}

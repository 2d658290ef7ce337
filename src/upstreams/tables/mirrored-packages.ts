import type pg from 'pg'
import { advisoryLocks, type Queryable, together } from '../../database/database.ts'
import { isInNameRange, nameRange } from '../../database/name-range.ts'
import { renderFilter } from '../../documents/filter-document.ts'
import type { ListPart } from '../../domain/paging.ts'
import { sharePathLock } from '../../groups/path-locks.ts'
import { contestedBy } from './contested-names.ts'
import { heldVersions, type ListedHeld } from './held-versions.ts'
import type { UpstreamMode } from './upstreams.ts'

/** The reason why a package may or may not come from an upstream. The SQL function `package_origin` decides. */
export type OriginVerdict = 'own' | 'claimed' | 'denied' | 'unapproved' | 'contested' | 'upstream'

/** SQL: the malware flags of a mirrored package `m`, with those of the summary of its upstream. */
export const allFlags = `m.flags || case when m.summary is null then '[]'::jsonb
    else jsonb_build_array(jsonb_build_object('constraint', m.summary, 'reason', 'flagged as malware')) end`

/** Where a package comes from. */
export interface Origin {
  verdict: OriginVerdict
  /** The id in `mirrored_package`. Null when there is no row yet. */
  packageId: string | null
  /** Whether an upstream has served the name before. Then no other upstream is tried. */
  isBound: boolean
  /** The upstreams to try, in this order. */
  upstreamIds: string[]
}

/** Returns the given names that upstreams may see. */
export async function listForeignNames(
  db: Queryable,
  repositoryId: string,
  names: readonly string[],
): Promise<(Origin & { name: string })[]> {
  const { rows } = await db.query<Origin & { name: string }>({
    name: 'list-foreign-names',
    text: `select n.name, o.verdict, o.package_id as "packageId", o.is_bound as "isBound", o.upstream_ids as "upstreamIds"
             from unnest($2::text[]) as n (name), package_origin($1, n.name) o
            where o.verdict = 'upstream'`,
    values: [repositoryId, names],
  })
  return rows
}

/**
 * Lists the names that upstreams offer to a repository, as far as svc knows them without a request: names that an upstream
 * has served, and those that packages.json of an upstream lists. They match all of the patterns, are in byte order, begin
 * after the name `after`, and are at most `limit`.
 */
export async function listKnownNames(
  db: Queryable,
  repositoryId: string,
  patterns: readonly string[],
  { after, limit }: { after: string; limit: number },
): Promise<string[]> {
  const { start, likePatterns } = nameRange(patterns)
  const isWanted = isInNameRange('k.name')
  const { rows } = await db.query<{ name: string }>({
    name: 'list-known-names',
    // The names are sorted before their origin is looked up, so that no more of them are looked up than necessary.
    text: `with known as materialized (
             select k.name from mirrored_package k
              where k.repository_id = $1 and k.upstream_id is not null and ${isWanted}
             union
             select k.name
               from upstream u
              cross join lateral (select value #>> '{}' as name from jsonb_path_query(
                                     u.root, '$.keyvalue() ? (@.key == "names" || @.key == "inlineNames").value[*]')
                                        as named (value)) k
              where u.repository_id = $1 and u.removed_at is null and u.mode <> 'off' and ${isWanted}
           )
           select k.name
             from (select name from known order by name collate "C" offset 0) k
            cross join lateral package_origin($1, k.name) o
            where o.verdict = 'upstream'
            order by k.name collate "C" limit $5`,
    values: [repositoryId, after, start, likePatterns, limit],
  })
  return rows.map(({ name }) => name)
}

/** Returns the given names that are own packages of the repository, or belong to a vendor that its group has claimed. */
export async function listOwnNames(
  db: Queryable,
  repositoryId: string,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ name: string }>({
    name: 'list-own-names',
    text: `select n.name from unnest($2::text[]) as n (name), package_origin($1, n.name) o
            where o.verdict in ('own', 'claimed')`,
    values: [repositoryId, names],
  })
  return new Set(rows.map(({ name }) => name))
}

/** Returns where a package of a repository comes from, and whether another repository of its group has the package. */
export async function findOrigin(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<{ verdict: OriginVerdict; isInGroup: boolean }> {
  const { rows } = await db.query<{ verdict: OriginVerdict; isInGroup: boolean }>(
    `select o.verdict,
            exists (select from repository r
                      join repository other on other.group_id = r.group_id
                      join package p on p.repository_id = other.id and p.name = $2
                     where r.id = $1) as "isInGroup"
       from package_origin($1, $2) o`,
    [repositoryId, name],
  )
  return rows[0] ?? { verdict: 'denied', isInGroup: false }
}

/** A mirrored package and the upstream that its name is bound to. */
export interface BoundPackage {
  id: string
  upstreamId: string
  /** Whether no upstream has served the name before. */
  isNew: boolean
}

/** A name and the upstream that serves it. */
export interface Binding {
  upstream: { id: string; repositoryId: string }
  packageName: string
}

/**
 * Binds names to the upstreams that served them, and locks their rows. Returns for each name the package and its
 * upstream. When a racing request was first, this is the upstream of that request. Null for an upstream that was
 * removed. The names get the malware flags of their upstream's summary. The rules of the upstreams cannot change until the
 * transaction ends, so a changed rule applies to all documents that this transaction stores.
 */
export async function bindPackages(
  tx: pg.PoolClient,
  bindings: readonly Binding[],
): Promise<(BoundPackage | null)[]> {
  const repositoryIds = bindings.map(({ upstream }) => upstream.repositoryId)
  const names = bindings.map(({ packageName }) => packageName)
  const bound = tx.query<BoundPackage | { id: null }>({
    name: 'bind-mirrored-packages',
    text: `with wanted as materialized (
             select * from unnest((select $1::bigint[]), (select $2::text[]), (select $3::bigint[]))
                      with ordinality as w (repository_id, name, upstream_id, place)
           ), paths as materialized (
             ${sharePathLock('id = any ($1)')}
           ), active as materialized (
             select id from upstream
              where id = any ($3) and removed_at is null and (select count(*) from paths) >= 0
              order by id for share
           ), bound as (
             insert into mirrored_package as m (repository_id, name, upstream_id, first_seen_at, used_on)
             select distinct on (repository_id, name) repository_id, name, upstream_id, now(), current_date
               from wanted join active on active.id = wanted.upstream_id order by repository_id, name, place
             on conflict (repository_id, name) do update
                set upstream_id = coalesce(m.upstream_id, excluded.upstream_id),
                    first_seen_at = coalesce(m.first_seen_at, excluded.first_seen_at),
                    used_on = coalesce(m.used_on, excluded.used_on)
             returning id, repository_id, name, upstream_id, first_seen_at = now() as is_new
           )
           select b.id, b.upstream_id as "upstreamId", b.is_new as "isNew"
             from wanted w
             left join active a on a.id = w.upstream_id
             left join bound b on a.id is not null and b.repository_id = w.repository_id and b.name = w.name
            order by w.place`,
    values: [repositoryIds, names, bindings.map(({ upstream }) => upstream.id)],
  })
  // The binding shares the row of the upstream, and a new summary of malware locks it. This statement begins after that, so
  // it sees a summary for which the binding has waited.
  const flagged = tx.query<{ repositoryId: string }>({
    name: 'flag-bound-packages',
    // A join could read the whole table, if it was planned while the table was empty.
    text: `with found as (
             select m.id, f.constraints
               from unnest((select $1::bigint[]), (select $2::text[])) as w (repository_id, name)
              cross join lateral (select id, upstream_id, summary from mirrored_package
                                   where repository_id = w.repository_id and name = w.name limit 1) m
              cross join lateral (select constraints from upstream_flag
                                   where upstream_id = m.upstream_id and name = w.name limit 1) f
              where m.summary is distinct from f.constraints
           ), flagged as (
             update mirrored_package m set summary = (select constraints from found where id = m.id limit 1)
              where id = any (array(select id from found))
             returning m.repository_id
           )
           select distinct repository_id as "repositoryId" from flagged order by 1`,
    values: [repositoryIds, names],
  })
  const [{ rows }, { rows: changed }] = await together([bound, flagged])
  for (const { repositoryId } of changed) await renderFilter(tx, repositoryId)
  return rows.map((row) => (row.id === null ? null : row))
}

/** Returns the id of a package that is mirrored from an upstream. Null when the name is not bound to the upstream. */
export async function findBoundPackage(
  db: Queryable,
  upstreamId: string,
  packageName: string,
): Promise<string | null> {
  const { rows } = await db.query<{ id: string }>(
    'select id from mirrored_package where upstream_id = $1 and name = $2',
    [upstreamId, packageName],
  )
  return rows[0]?.id ?? null
}

/** Approves names, even unknown ones. Returns the names that were not approved before. */
export async function approveNames(
  db: Queryable,
  repositoryId: string,
  names: readonly string[],
): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `insert into mirrored_package as m (repository_id, name, approved_at)
     select $1, name, now() from (select distinct unnest($2::text[]) as name order by 1) n
     on conflict (repository_id, name) do update set approved_at = excluded.approved_at where m.approved_at is null
     returning name`,
    [repositoryId, names],
  )
  return rows.map(({ name }) => name)
}

/**
 * The maximum number of names that wait for approval in a repository. It is limited because everyone who may pull can
 * add a name.
 */
export const maxRequests = 1000

/** Stores a request to approve a name. False when the name is already approved or requested, or too many names wait. */
export async function requestName(
  tx: pg.PoolClient,
  repositoryId: string,
  name: string,
  accountId: string,
): Promise<boolean> {
  // Two requests at once would pass the maximum. The row of the repository is locked after those of packages, so it is not used.
  await tx.query(
    `select pg_advisory_xact_lock(${advisoryLocks.requestedNames}, ($1::bigint % 2147483647)::int)`,
    [repositoryId],
  )
  const { rowCount } = await tx.query({
    name: 'request-mirrored-name',
    text: `insert into mirrored_package as m (repository_id, name, requested_at, requester_id)
           select $1, $2, now(), $3
            where (select count(*) from mirrored_package
                    where repository_id = $1 and requested_at is not null and approved_at is null) < ${maxRequests}
           on conflict (repository_id, name) do update
              set requested_at = excluded.requested_at, requester_id = excluded.requester_id
            where m.requested_at is null and m.approved_at is null`,
    values: [repositoryId, name, accountId],
  })
  return rowCount === 1
}

/** A mirrored package in a list. */
export interface ListedMirror {
  name: string
  /** Null when no upstream has served the package yet. */
  upstream: string | null
  /** The mode of that upstream. */
  mode: UpstreamMode | null
  isUpstreamRemoved: boolean
  description: string
  firstSeenAt: Date | null
  lastFetchedAt: Date | null
  approvedAt: Date | null
  requestedAt: Date | null
  requester: string | null
  /** The time at which the upstream stopped serving the package. Null while the upstream serves it. */
  goneAt: Date | null
  minimumAgeHours: number
  /**
   * The upstreams before that one which have the package too. Until an admin decides which one serves it, the package is
   * not offered.
   */
  contestedBy: string[]
  /** How an archive of the package has changed at the upstream. Null without an alarm. */
  alarm: string | null
  /**
   * The versions whose archives have changed, the latest change first. At most 20. `isFixed` is false when the first
   * fetch has failed already, because its bytes did not have the announced checksum.
   */
  alarms: { version: string; reason: string; isFixed: boolean }[]
  /** The versions that are held back until they are old enough, newest first. At most 1000. */
  heldBack: ListedHeld[]
  /** The versions that cannot be offered, each with the reason. At most 20. */
  leftOut: string[]
}

/**
 * Lists the mirrored packages of a repository, and the names that wait for approval, by name. `isWaiting: true` lists
 * only the names that wait. `isWaiting: false` lists the other ones, so each package is in one of the two lists.
 */
export async function listMirrors(
  db: Queryable,
  repositoryId: string,
  {
    search = '',
    name = null,
    isWaiting = null,
    after,
    limit,
  }: ListPart & { search?: string; name?: string | null; isWaiting?: boolean | null },
): Promise<ListedMirror[]> {
  const { rows } = await db.query<ListedMirror>(
    `select m.name, u.name as upstream, u.mode, u.removed_at is not null as "isUpstreamRemoved", m.description,
            m.first_seen_at as "firstSeenAt", m.approved_at as "approvedAt",
            m.requested_at as "requestedAt", a.username as requester, m.gone_at as "goneAt",
            coalesce(u.minimum_age_hours, 0) as "minimumAgeHours", ${contestedBy} as "contestedBy",
            ${heldVersions} as "heldBack",
            (select max(d.checked_at) from upstream_document d where d.upstream_id = u.id and d.name = m.name)
              as "lastFetchedAt",
            (select x.alarm from mirrored_archive x where x.package_id = m.id and x.alarm is not null
              order by x.alarmed_at desc limit 1) as alarm,
            (select coalesce(jsonb_agg(jsonb_build_object('version', x.version, 'reason', x.alarm,
                                                          'isFixed', x.is_fixed)
                                       order by x.alarmed_at desc), '[]')
               from (select y.*
                       from (select distinct on (z.version, z.sha256 is null) z.version, z.alarm, z.alarmed_at,
                                    z.sha256 is not null as is_fixed
                               from mirrored_archive z
                              where z.package_id = m.id and z.alarm is not null
                              order by z.version, z.sha256 is null, z.alarmed_at desc) y
                      order by y.alarmed_at desc limit 20) x) as alarms,
            array(select distinct reason from upstream_document d, unnest(d.dropped) reason
                   where d.upstream_id = u.id and d.name = m.name order by reason limit 20) as "leftOut"
       from mirrored_package m
       left join upstream u on u.id = m.upstream_id
       left join account a on a.id = m.requester_id
      where m.repository_id = $1 and m.name > $2 and strpos(m.name, $3) > 0
        and ($6::text is null or m.name = $6)
        and case $5::boolean
              when true then m.requested_at is not null and m.approved_at is null
              when false then m.approved_at is not null
                or m.requested_at is null and (m.upstream_id is not null or m.first_seen_at is not null)
              else true end
      order by m.name limit $4`,
    [repositoryId, after ?? '', search.toLowerCase(), limit, isWaiting, name],
  )
  return rows
}

/** Finds a mirrored package, or a name that waits for approval. Null when the repository has neither. */
export async function findListedMirror(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<ListedMirror | null> {
  const [found] = await listMirrors(db, repositoryId, { name, after: null, limit: 1 })
  return found ?? null
}

/** A vendor whose packages come from upstreams. */
export interface MirroredVendor {
  vendor: string
  upstreams: string[]
  packages: number
}

/** Lists the vendors of the packages that upstreams have served to a repository, by name. */
export async function listMirroredVendors(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
): Promise<MirroredVendor[]> {
  const { rows } = await db.query<MirroredVendor>(
    `select split_part(m.name, '/', 1) as vendor, array_agg(distinct u.name order by u.name) as upstreams,
            count(*)::int as packages
       from mirrored_package m join upstream u on u.id = m.upstream_id
      where m.repository_id = $1 and split_part(m.name, '/', 1) > $2
      group by 1 order by 1 limit $3`,
    [repositoryId, after ?? '', limit],
  )
  return rows
}

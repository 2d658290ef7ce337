import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { UpstreamRights } from '../client/fetch.ts'
import type { UpstreamRoot } from '../client/upstream-root.ts'

/** Which packages an upstream offers: all, only approved ones, or none. */
export const upstreamModes = ['automatic', 'approved', 'off'] as const
export type UpstreamMode = (typeof upstreamModes)[number]

/** The default of `credentialHosts`, also in the database: it serves the archives of most public packages. */
export const defaultCredentialHosts = ['api.github.com']

/** The settings of an upstream. */
export interface UpstreamSettings {
  mode: UpstreamMode
  /** Patterns of packages that the upstream may offer. If empty, it may offer all packages. */
  allow: string[]
  /** Patterns of packages that the upstream may not offer. */
  deny: string[]
  /** Patterns to which the minimum age does not apply. */
  exempt: string[]
  minimumAgeHours: number
  /** Whether versions keep their `source`, from which Composer can clone them without this registry. */
  keepsSource: boolean
  /** Upstreams with lower positions are tried first. */
  position: number
}

/** Another Composer repository whose packages a repository offers (CONTRACT 1.6). */
export interface Upstream extends UpstreamSettings, UpstreamRights {
  id: string
  repositoryId: string
  name: string
  credentialHosts: string[]
  /** Null until packages.json has been read. */
  root: UpstreamRoot | null
  rootLastModified: string | null
  rootCheckedAt: Date | null
  /** The reason why packages.json could not be read. Null when the last attempt succeeded. */
  failure: string | null
  /** The time of that attempt. Null when it succeeded. */
  failedAt: Date | null
  createdAt: Date
}

const columns = `u.id, u.repository_id as "repositoryId", u.name, u.url, u.uses_credentials as "usesCredentials",
  u.credential_hosts as "credentialHosts", u.reaches_private_hosts as "reachesPrivateHosts", u.mode, u.allow, u.deny, u.exempt,
  u.minimum_age_hours as "minimumAgeHours", u.keeps_source as "keepsSource", u.position, u.root, u.root_last_modified as "rootLastModified",
  u.root_checked_at as "rootCheckedAt", u.failure, case when u.failure is not null then u.root_failed_at end as "failedAt",
  u.created_at as "createdAt"`

/** Lists the upstreams of a repository in the order in which they are tried. */
export async function listUpstreams(db: Queryable, repositoryId: string): Promise<Upstream[]> {
  const { rows } = await db.query<Upstream>({
    name: 'list-upstreams',
    text: `select ${columns} from upstream u
            where u.repository_id = $1 and u.removed_at is null order by u.position, u.id`,
    values: [repositoryId],
  })
  return rows
}

/** Finds an upstream by name. Null when the repository has no upstream of that name. */
export async function findUpstream(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<Upstream | null> {
  const { rows } = await db.query<Upstream>(
    `select ${columns} from upstream u where u.repository_id = $1 and u.name = $2 and u.removed_at is null`,
    [repositoryId, name],
  )
  return rows[0] ?? null
}

/** Lists upstreams by their ids, in the order of the ids. Leaves out removed upstreams. */
export async function listUpstreamsById(db: Queryable, ids: readonly string[]): Promise<Upstream[]> {
  const { rows } = await db.query<Upstream>({
    name: 'list-upstreams-by-id',
    text: `select ${columns} from unnest($1::bigint[]) with ordinality as wanted (id, place)
             join upstream u on u.id = wanted.id and u.removed_at is null order by wanted.place`,
    values: [ids],
  })
  return rows
}

/**
 * Lists the active upstreams of all repositories that have a change feed, a malware list, or documents to refresh. The first
 * upstream of every group comes before the second one of any group. `isSlow` tells whether their last read took long.
 */
export async function listUpstreamsToFollow(db: Queryable): Promise<{ id: string; isSlow: boolean }[]> {
  const { rows } = await db.query<{ id: string; isSlow: boolean }>(
    `select u.id, u.is_slow as "isSlow"
       from upstream u join repository r on r.id = u.repository_id
      where u.removed_at is null and u.mode <> 'off'
        and (u.feed_from is not null or u.root ->> 'changesUrl' is not null or u.root ->> 'filterSummaryUrl' is not null
          or exists (select from upstream_flag f where f.upstream_id = u.id)
          or exists (select from mirrored_package m where m.upstream_id = u.id and m.summary is not null)
          or exists (select from upstream_document d where d.upstream_id = u.id and d.is_stale and d.is_found))
      order by row_number() over (partition by r.group_id order by u.id), u.id`,
  )
  return rows
}

/** Stores whether the last read of an upstream's malware list and change feed took long. */
export async function noteSlowness(db: Queryable, id: string, isSlow: boolean): Promise<void> {
  await db.query('update upstream set is_slow = $2 where id = $1 and is_slow <> $2', [id, isSlow])
}

/** Returns whether the repository has an upstream that is not removed. */
export async function hasUpstreams(db: Queryable, repositoryId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    'select from upstream where repository_id = $1 and removed_at is null limit 1',
    [repositoryId],
  )
  return rowCount === 1
}

/** An upstream to insert. */
export interface NewUpstream extends Omit<UpstreamSettings, 'position'> {
  repositoryId: string
  name: string
  url: string
  /**
   * The position. Null puts the upstream after all others, or where the removed one was that has the same URL and still has
   * names.
   */
  position: number | null
  usesCredentials: boolean
  reachesPrivateHosts: boolean
  root: UpstreamRoot
  rootLastModified: string | null
}

/** Adds an upstream. Throws with the constraint `upstream_name_is_taken` or another constraint of the table. */
export async function insertUpstream(db: Queryable, fresh: NewUpstream): Promise<Upstream> {
  const { rows } = await db.query<Upstream>(
    `with u as (
       insert into upstream (repository_id, name, url, mode, allow, deny, exempt, minimum_age_hours, position,
                             root, root_last_modified, root_checked_at, uses_credentials, reaches_private_hosts, keeps_source)
       values ($1, $2, $3, $4, $5, $6, $7, $8,
               coalesce($9, (select r.position from upstream r
                              where r.repository_id = $1 and r.url = $3 and r.removed_at is not null
                                and exists (select from mirrored_package m where m.upstream_id = r.id)
                              order by r.removed_at desc limit 1),
                            (select least(coalesce(max(position), 0) + 1, 1000) from upstream
                              where repository_id = $1 and removed_at is null)),
               $10, $11, now(), $12, $13, $14)
       returning *
     )
     select ${columns} from u`,
    [
      fresh.repositoryId,
      fresh.name,
      fresh.url,
      fresh.mode,
      fresh.allow,
      fresh.deny,
      fresh.exempt,
      fresh.minimumAgeHours,
      fresh.position,
      JSON.stringify(fresh.root),
      fresh.rootLastModified,
      fresh.usesCredentials,
      fresh.reachesPrivateHosts,
      fresh.keepsSource,
    ],
  )
  return rows[0] as Upstream
}

/**
 * Waits until no transaction stores documents of the upstream, and keeps new ones waiting until this transaction ends.
 * The next statement sees all stored documents. Without this, a change would miss a document that is being stored.
 */
export async function lockUpstream(tx: pg.PoolClient, repositoryId: string, name: string): Promise<void> {
  await tx.query(
    'select from upstream where repository_id = $1 and name = $2 and removed_at is null for no key update',
    [repositoryId, name],
  )
}

/** Does the same for upstreams that are known by their ids. */
export async function lockUpstreamsById(tx: pg.PoolClient, ids: readonly string[]): Promise<void> {
  await tx.query('select from upstream where id = any ($1) order by id for no key update', [ids])
}

/**
 * Changes the given settings and marks the upstream's documents for rendering. Null when there is no such upstream.
 * Call `lockUpstream` first.
 */
export async function changeUpstream(
  db: Queryable,
  repositoryId: string,
  name: string,
  change: Partial<UpstreamSettings> & Partial<UpstreamRights>,
): Promise<Upstream | null> {
  const { rows } = await db.query<Upstream>(
    `with u as (
       update upstream
          set mode = coalesce($3, mode), allow = coalesce($4, allow), deny = coalesce($5, deny),
              exempt = coalesce($6, exempt), minimum_age_hours = coalesce($7, minimum_age_hours),
              position = coalesce($8, position), uses_credentials = coalesce($9, uses_credentials),
              credential_hosts = coalesce($10, credential_hosts), reaches_private_hosts = coalesce($11, reaches_private_hosts),
              keeps_source = coalesce($12, keeps_source)
        where repository_id = $1 and name = $2 and removed_at is null
       returning *
     ), due as (
       update mirrored_document d set due_at = now()
         from mirrored_package m, u where m.upstream_id = u.id and d.package_id = m.id
     ), stale as (
       -- Documents that an earlier release has stored have no source. The subquery still sees the setting before.
       update upstream_document d set is_stale = true, last_modified = null
         from u where d.upstream_id = u.id and d.content is not null
                  and u.keeps_source and not (select keeps_source from upstream where id = u.id)
     )
     select ${columns} from u`,
    [
      repositoryId,
      name,
      change.mode,
      change.allow,
      change.deny,
      change.exempt,
      change.minimumAgeHours,
      change.position,
      change.usesCredentials,
      change.credentialHosts,
      change.reachesPrivateHosts,
      change.keepsSource,
    ],
  )
  return rows[0] ?? null
}

/** Stores the current packages.json of an upstream. */
export async function saveRoot(
  db: Queryable,
  id: string,
  { root, lastModified }: { root: UpstreamRoot | null; lastModified: string | null },
): Promise<void> {
  await db.query({
    name: 'save-upstream-root',
    text: `update upstream
              set root = coalesce($2, root), root_last_modified = case when $2 is null then root_last_modified else $3 end,
                  root_checked_at = now(), failure = null
            where id = $1`,
    values: [id, root === null ? null : JSON.stringify(root), lastModified],
  })
}

/** Stores the reason why packages.json of an upstream could not be read. */
export async function saveRootFailure(db: Queryable, id: string, failure: string): Promise<void> {
  await db.query('update upstream set root_failed_at = now(), failure = $2 where id = $1', [id, failure])
}

/** Takes the turn to follow an upstream's change feed. Null when it was followed within the given seconds. */
export async function takeFeedTurn(
  db: Queryable,
  id: string,
  seconds: number,
): Promise<{ since: string | null } | null> {
  const { rows } = await db.query<{ since: string | null }>(
    `update upstream set feed_checked_at = now(),
                         feed_from = case when feed_checked_at > now() - interval '12 hours' then feed_from end
      where id = $1 and (feed_checked_at is null or feed_checked_at <= now() - make_interval(secs => $2))
      returning feed_since as since`,
    [id, seconds],
  )
  return rows[0] ?? null
}

/**
 * Stores the position for the next read of the change feed. `isRestart` means that changes before the position may be
 * missing.
 */
export async function saveFeedPosition(
  db: Queryable,
  id: string,
  since: string,
  { isRestart }: { isRestart: boolean },
): Promise<void> {
  await db.query(
    `update upstream set feed_since = $2, feed_from = case when $3 then now() else coalesce(feed_from, now()) end
      where id = $1`,
    [id, since, isRestart],
  )
}

/** Stores that no change feed is followed. After that, documents are checked one by one again. */
export async function stopFeed(db: Queryable, id: string): Promise<void> {
  await db.query('update upstream set feed_from = null where id = $1 and feed_from is not null', [id])
}

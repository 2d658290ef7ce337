import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import { renderFilter } from '../../documents/filter-document.ts'
import type { ListPart } from '../../domain/paging.ts'
import { readRowId } from '../../domain/row-id.ts'
import { allFlags } from './mirrored-packages.ts'

/** A removed upstream to which names are still bound. */
export interface RemovedUpstream {
  id: string
  name: string
  url: string
  removedAt: Date
  /** How many names are bound to it. */
  packages: number
}

/**
 * Lists the removed upstreams of a repository to which names are still bound, in the order in which they were added.
 * `after` is the id of an upstream.
 */
export async function listRemovedUpstreams(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
): Promise<RemovedUpstream[]> {
  const { rows } = await db.query<RemovedUpstream>(
    `select u.id, u.name, u.url, u.removed_at as "removedAt", count(*)::int as packages
       from upstream u join mirrored_package m on m.upstream_id = u.id
      where u.repository_id = $1 and u.removed_at is not null and u.id > $2
      group by u.id order by u.id limit $3`,
    [repositoryId, readRowId(after) ?? '0', limit],
  )
  return rows
}

/**
 * Marks an upstream as removed. Its names stay bound to it, so that no other upstream can take them over. Returns its
 * id. Null when there is no such upstream. Call `lockUpstream` first.
 */
export async function markUpstreamRemoved(
  tx: pg.PoolClient,
  repositoryId: string,
  name: string,
): Promise<string | null> {
  const { rows } = await tx.query<{ id: string }>(
    `update upstream set removed_at = now()
      where repository_id = $1 and name = $2 and removed_at is null returning id`,
    [repositoryId, name],
  )
  const id = rows[0]?.id ?? null
  // A separate statement also sees the summary of a transaction that the first one waited for.
  if (id !== null) await tx.query('delete from upstream_flag where upstream_id = $1', [id])
  return id
}

/** Locks the removed upstreams with this name or URL until the transaction ends. Returns their ids. */
export async function lockRemovedUpstreams(
  tx: pg.PoolClient,
  repositoryId: string,
  nameOrUrl: string,
): Promise<string[]> {
  const { rows } = await tx.query<{ id: string }>(
    `select id from upstream
      where repository_id = $1 and $2 in (name, url) and removed_at is not null order by id for no key update`,
    [repositoryId, nameOrUrl],
  )
  return rows.map(({ id }) => id)
}

/** SQL: locks the packages of a condition on a column of theirs, in the order of the statement that binds names. */
function lockNames(condition: string): string {
  return `select m.id, m.name, m.upstream_id, m.flags <> '[]' or m.summary is not null as is_flagged
            from mirrored_package m where m.${condition} order by m.repository_id, m.name for no key update`
}

/** SQL: the flags of all upstreams that have released a mirrored package `m`, and of the one that releases it now. */
const withAllFlags = `(select coalesce(jsonb_agg(distinct flag), '[]')
                         from jsonb_array_elements(m.released_flags || ${allFlags}) flag)`

/**
 * Unbinds all names of removed upstreams. Their malware flags then apply only to stored archives. Returns how many. The
 * transaction has locked the upstreams.
 */
export function unbindNames(
  tx: pg.PoolClient,
  repositoryId: string,
  upstreamIds: readonly string[],
): Promise<number> {
  return unbind(tx, repositoryId, 'upstream_id', upstreamIds)
}

/** Unbinds one name from its upstream, in the same way. The transaction has locked the upstream. */
export async function unbindName(tx: pg.PoolClient, repositoryId: string, packageId: string): Promise<void> {
  await unbind(tx, repositoryId, 'id', [packageId])
}

async function unbind(
  tx: pg.PoolClient,
  repositoryId: string,
  column: 'id' | 'upstream_id',
  ids: readonly string[],
): Promise<number> {
  const { rows } = await tx.query<{ count: number; hadFlags: boolean }>(
    `with names as materialized (${lockNames(`${column} = any ($1)`)}),
     released as (
       update mirrored_package m
          set upstream_id = null, released_from = m.upstream_id, released_flags = ${withAllFlags}, flags = '[]', summary = null
         from names where m.id = names.id returning m.id
     ), hidden as (
       delete from mirrored_document d using released where d.package_id = released.id
     ), unseen as (
       -- The versions of another upstream are other ones.
       delete from mirrored_metapackage v using released where v.package_id = released.id
     ), undone as (
       delete from early_version e using released where e.package_id = released.id
     ), undecided as (
       -- The decisions were about the upstream that served the name.
       delete from contested_name c using released where c.package_id = released.id
     )
     select count(*)::int as count, coalesce(bool_or(is_flagged), false) as "hadFlags" from names`,
    [ids],
  )
  // Use a separate statement, because it must see the change.
  if (rows[0]?.hadFlags) await renderFilter(tx, repositoryId)
  return rows[0]?.count ?? 0
}

/**
 * Waits until no transaction removes or adds an upstream with this URL, and keeps new ones waiting until this
 * transaction ends.
 */
export async function lockUpstreamUrl(tx: pg.PoolClient, repositoryId: string, url: string): Promise<void> {
  await tx.query('select from upstream where repository_id = $1 and url = $2 order by id for no key update', [
    repositoryId,
    url,
  ])
}

/**
 * Binds the names of removed upstreams to a new upstream with the same URL, together with their stored content. Their
 * documents keep their Last-Modified, and are due, because the new upstream has other rules. Returns how many names were
 * bound. Call `lockUpstreamUrl` first.
 */
export async function takeOverNames(
  tx: pg.PoolClient,
  { id, repositoryId, url }: { id: string; repositoryId: string; url: string },
): Promise<number> {
  const isRemoved =
    '(select id from upstream where repository_id = $2 and url = $3 and removed_at is not null)'
  const { rows } = await tx.query<{ count: number }>(
    `with names as materialized (${lockNames(`upstream_id in ${isRemoved}`)}),
     taken as (
       update mirrored_package m set upstream_id = $1 from names where m.id = names.id returning m.id
     ), contents as (
       update upstream_document d set upstream_id = $1
         from names n where d.upstream_id = n.upstream_id and d.name = n.name
     ), due as (
       update mirrored_document d set due_at = now() from taken where d.package_id = taken.id
     )
     select count(*)::int as count from names`,
    [id, repositoryId, url],
  )
  return rows[0]?.count ?? 0
}

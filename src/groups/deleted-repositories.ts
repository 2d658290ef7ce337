import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import { changePaths, shareTenancy } from './path-locks.ts'
import { findGroupId, purgeRepository } from './repositories.ts'

/*
 * A deleted repository is in no group, so that no statement finds it by a path or through the members of its group. Its
 * row remembers the group. The limits of the group still count it, and its name stays taken.
 */

/** How long a deleted repository can be restored. Afterwards a job removes it for good. */
export const restorableDays = 14

const isRestorable = `deleted_at > now() - interval '${restorableDays} days'`

/**
 * Deletes a repository, so that it can be restored. Its upstreams end as removed ones do: nothing asks them any more.
 * The tokens of its trusted publishers end for good. Waits for publications. Returns false when it was deleted before.
 */
export async function hideRepository(tx: pg.PoolClient, id: string): Promise<boolean> {
  const groupId = await findGroupId(tx, id)
  if (groupId === null) return false
  await changePaths(tx, groupId)
  const { rowCount } = await tx.query(
    `with hidden as materialized (
       select id, group_id from repository where id = $1 and group_id is not null for update
     ), reserved as (
       update repository_group g set has_published = true
         from hidden
        where g.id = hidden.group_id and not g.has_published
          and (exists (select from package where repository_id = hidden.id)
               or exists (select from mirrored_package where repository_id = hidden.id))
     ), stopped as (
       update upstream u set removed_at = now() from hidden where u.repository_id = hidden.id and u.removed_at is null
     ), not_due as (
       update mirrored_document d set due_at = 'infinity'
         from hidden join mirrored_package m on m.repository_id = hidden.id
        where d.package_id = m.id and d.due_at < 'infinity'
     )
     update repository r set group_id = null, deleted_from_id = hidden.group_id, deleted_at = now()
       from hidden where r.id = hidden.id`,
    [id],
  )
  // A statement of its own, which sees what an exchange has stored for which the statement before has waited.
  await tx.query('delete from publisher_token where repository_id = $1', [id])
  return rowCount === 1
}

/**
 * Restores a deleted repository of a group, with the upstreams that ended with it. Returns its id. Null when the group
 * has no repository of this name that can be restored.
 */
export async function unhideRepository(
  tx: pg.PoolClient,
  groupId: string,
  name: string,
): Promise<string | null> {
  await changePaths(tx, groupId)
  const { rows } = await tx.query<{ id: string }>(
    `with hidden as materialized (
       select id, deleted_at from repository where deleted_from_id = $1 and name = $2 and ${isRestorable} for update
     ), started as (
       update upstream u set removed_at = null
         from hidden where u.repository_id = hidden.id and u.removed_at = hidden.deleted_at
     )
     update repository r set group_id = r.deleted_from_id, deleted_from_id = null, deleted_at = null
       from hidden where r.id = hidden.id
     returning r.id`,
    [groupId, name],
  )
  return rows[0]?.id ?? null
}

/** A deleted repository that can be restored. */
export interface DeletedRepository {
  /** `acme/php`. */
  path: string
  deletedAt: Date
  /** When it is removed for good. */
  restorableUntil: Date
}

/** Lists the deleted repositories that can be restored, by path: those of a group, or all. `after` is a path. */
export async function listDeletedRepositories(
  db: Queryable,
  groupId: string | null,
  { after, limit }: ListPart,
): Promise<DeletedRepository[]> {
  const [group = '', name = ''] = (after ?? '').split('/')
  const { rows } = await db.query<DeletedRepository>(
    `select g.name || '/' || r.name as path, r.deleted_at as "deletedAt",
            r.deleted_at + interval '${restorableDays} days' as "restorableUntil"
       from repository r join repository_group g on g.id = r.deleted_from_id
      where (g.name, r.name) > ($1, $2) and ($3::bigint is null or g.id = $3) and ${isRestorable}
      order by g.name, r.name limit $4`,
    [group, name, groupId, limit],
  )
  return rows
}

/** Lists the ids of the repositories whose time to be restored is over. */
export async function listExpiredRepositories(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from repository where deleted_at is not null and not ${isRestorable} order by id`,
  )
  return rows.map(({ id }) => id)
}

/**
 * Removes a repository for good. Returns its group and its path. Null when it was restored at the last moment, or removed
 * before.
 */
export async function purgeExpiredRepository(
  tx: pg.PoolClient,
  id: string,
): Promise<{ groupId: string; path: string } | null> {
  const { rows } = await tx.query<{ groupId: string; path: string }>(
    `select g.id as "groupId", g.name || '/' || r.name as path
       from repository r join repository_group g on g.id = r.deleted_from_id where r.id = $1`,
    [id],
  )
  const [found] = rows
  if (!found) return null
  // A restoration holds this lock alone, so the next statement sees what it has done.
  await shareTenancy(tx, found.groupId)
  const isExpired = (await listExpiredRepositories(tx)).includes(id)
  return isExpired && (await purgeRepository(tx, id)) ? found : null
}

import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'

/** A repository that a person watches. */
export interface WatchedRepository {
  /** `acme/php`. */
  path: string
  visibility: string
}

/** Lets a person watch a repository, or no longer. The caller has checked that the person may read it. */
export async function setWatching(
  db: Queryable,
  accountId: string,
  repositoryId: string,
  isWatching: boolean,
): Promise<void> {
  await db.query(
    isWatching
      ? 'insert into watched_repository (account_id, repository_id) values ($1, $2) on conflict do nothing'
      : 'delete from watched_repository where account_id = $1 and repository_id = $2',
    [accountId, repositoryId],
  )
}

/** Returns whether a person watches a repository. */
export async function isWatching(db: Queryable, accountId: string, repositoryId: string): Promise<boolean> {
  const { rows } = await db.query<{ watches: boolean }>(
    'select exists (select from watched_repository where account_id = $1 and repository_id = $2) as watches',
    [accountId, repositoryId],
  )
  return rows[0]?.watches === true
}

/**
 * Lets a person watch a group, or no longer: all its repositories that the person may read, also those that come later. The
 * caller has checked that the person may see the group.
 */
export async function setWatchingGroup(
  db: Queryable,
  accountId: string,
  groupId: string,
  isWatched: boolean,
): Promise<void> {
  await db.query(
    isWatched
      ? 'insert into watched_group (account_id, group_id) values ($1, $2) on conflict do nothing'
      : 'delete from watched_group where account_id = $1 and group_id = $2',
    [accountId, groupId],
  )
}

/** Returns whether a person watches a group. */
export async function isWatchingGroup(db: Queryable, accountId: string, groupId: string): Promise<boolean> {
  const { rows } = await db.query<{ watches: boolean }>(
    'select exists (select from watched_group where account_id = $1 and group_id = $2) as watches',
    [accountId, groupId],
  )
  return rows[0]?.watches === true
}

/** Lists the names of the groups that a person watches and may see, by name. `after` is a name. */
export async function listWatchedGroups(
  db: Queryable,
  accountId: string,
  { after, limit }: ListPart,
): Promise<{ name: string }[]> {
  const { rows } = await db.query<{ name: string }>(
    `select g.name
       from watched_group w
       join repository_group g on g.id = w.group_id
      where w.account_id = $1 and ($2::text is null or g.name > $2)
        and (exists (select from account a where a.id = w.account_id and a.is_admin)
             or exists (select from counted_group_member m where m.group_id = g.id and m.account_id = w.account_id)
             or exists (select from repository r
                         cross join lateral role_in_repository(w.account_id, g.id, r.id) own
                         where r.group_id = g.id and (r.visibility = 'public' or own.role is not null)))
      order by g.name limit $3`,
    [accountId, after, limit],
  )
  return rows
}

/** Lists the repositories that a person watches and may read, by path. `after` is a path. */
export async function listWatched(
  db: Queryable,
  accountId: string,
  { after, limit }: ListPart,
): Promise<WatchedRepository[]> {
  const { rows } = await db.query<WatchedRepository>(
    `select p.path, r.visibility
       from watched_repository w
       join repository r on r.id = w.repository_id
       join repository_group g on g.id = r.group_id
      cross join lateral (select g.name || '/' || r.name as path) p
      cross join lateral role_in_repository(w.account_id, r.group_id, r.id) own
      where w.account_id = $1 and ($2::text is null or p.path > $2)
        and (r.visibility = 'public' or own.role is not null)
      order by p.path limit $3`,
    [accountId, after, limit],
  )
  return rows
}

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

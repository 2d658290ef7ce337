import type { Queryable } from '../../database/database.ts'
import { type PublishedBy, publishedByColumns } from './versions.ts'

/** A version in a feed. */
export interface FeedVersion extends PublishedBy {
  /** The id of the version. */
  id: string
  packageName: string
  description: string
  version: string
  publishedAt: Date
}

const columns = `v.id, p.name as "packageName", p.description, v.version, v.published_at as "publishedAt",
  ${publishedByColumns}`

/** How many of the latest events of a repository the feed reads. */
const maxEvents = 200

/**
 * Lists the latest listed versions of a repository, the newest first. It looks only among the latest 200 publications
 * in the events, so the cost does not grow with the number of packages.
 */
export async function listFeedVersions(
  db: Queryable,
  repositoryId: string,
  limit: number,
): Promise<FeedVersion[]> {
  const { rows } = await db.query<FeedVersion>(
    // Only one index has this order. With another order, the statistics of a site with one large repository could make
    // PostgreSQL choose a slow index.
    `with latest as materialized (
       select repository_id, package, happened_at from event
        where action in ('publish', 'import') and (repository_id, id) <= ($1, 9223372036854775807)
        order by repository_id desc, id desc limit ${maxEvents}
     ), mine as (
       select distinct package from latest where repository_id = $1
     )
     select ${columns}
       from mine
       join package p on p.repository_id = $1 and p.name = mine.package
       join package_version v on v.package_id = p.id and v.is_listed
      where v.published_at >= (select min(happened_at) from latest where repository_id = $1) - interval '1 minute'
      order by v.published_at desc, v.id desc limit $2`,
    [repositoryId, limit],
  )
  return rows
}

/** A version that an account has published. */
export interface OwnVersion {
  packageName: string
  version: string
  publishedAt: Date
}

/** Finds what an account has published last in a repository, among its latest 200 publications. Null for nothing. */
export async function findOwnVersion(
  db: Queryable,
  repositoryId: string,
  accountId: string,
): Promise<OwnVersion | null> {
  const { rows } = await db.query<OwnVersion>(
    `select package as "packageName", version, happened_at as "publishedAt"
       from (select id, repository_id, actor_id, package, version, happened_at from event
              where action in ('publish', 'import') and (repository_id, id) <= ($1, 9223372036854775807)
              order by repository_id desc, id desc limit ${maxEvents}) latest
      where repository_id = $1 and actor_id = $2 and version is not null
      order by id desc limit 1`,
    [repositoryId, accountId],
  )
  return rows[0] ?? null
}

/** Lists the latest listed versions of a package, the newest first. Null when the repository has no such package. */
export async function listFeedVersionsOf(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  limit: number,
): Promise<FeedVersion[] | null> {
  const { rows } = await db.query<FeedVersion | { id: null }>(
    `select ${columns}
       from package p
       left join lateral (select id, version, published_at, uploader_id, deploy_token_id, publisher_run from package_version
                           where package_id = p.id and is_listed
                           order by published_at desc, id desc limit $3) v on true
      where p.repository_id = $1 and p.name = $2
      order by v.published_at desc, v.id desc`,
    [repositoryId, packageName, limit],
  )
  return rows.length === 0 ? null : rows.filter((row): row is FeedVersion => row.id !== null)
}

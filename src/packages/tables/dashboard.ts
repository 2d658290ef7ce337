import { accountName } from '../../database/account-name.ts'
import type { Queryable } from '../../database/database.ts'
import type { RegistryAction } from '../../events/actions.ts'
import { isRegistryEvent } from '../../events/event.ts'

/** The facts about the packages of a repository, for a list of repositories. */
export interface RepositoryContent {
  /**
   * The number of packages, at most `maxCounted` + 1. Up to 100, packages whose versions are all deleted are not
   * counted.
   */
  packages: number
  /** Null when nothing was published, or when the event of the last publication has been removed. */
  lastPublishedAt: Date | null
}

/** Packages are counted up to this number. More are shown as `1,000+`. */
export const maxCounted = 1_000

/** Up to this number, each package is checked for versions, because all versions of a package can be deleted. */
const maxChecked = 100

/*
 * Both subqueries of `addContents` have an order that only one index has. With another order, and with one very large
 * repository, PostgreSQL's statistics would make a read of the whole table look cheaper.
 */
const packagesOf = 'select id from package where repository_id = wanted.id order by name collate "C"'

/** Adds the number of packages and the last release to each repository of a list. */
export async function addContents<Listed extends { id: string }>(
  db: Queryable,
  repositories: readonly Listed[],
): Promise<(Listed & { content: RepositoryContent | undefined })[]> {
  const { rows } = await db.query<RepositoryContent & { id: string }>(
    `select wanted.id,
            case when names.count > ${maxChecked} then names.count
                 else (select count(*)::int from (${packagesOf} limit ${maxChecked}) p
                        where exists (select from package_version v where v.package_id = p.id and v.is_listed))
            end as packages,
            case when last.repository_id = wanted.id then last.happened_at end as "lastPublishedAt"
       from unnest($1::bigint[]) as wanted (id)
      cross join lateral (
        select count(*)::int from (${packagesOf} limit ${maxCounted + 1}) p
      ) as names (count)
       left join lateral (
        select repository_id, happened_at from event
         where action in ('publish', 'import') and (repository_id, id) <= (wanted.id, 9223372036854775807)
         order by repository_id desc, id desc limit 1
      ) as last on true`,
    [repositories.map(({ id }) => id)],
  )
  const contents = new Map(rows.map(({ id, ...content }) => [id, content]))
  return repositories.map((one) => ({ ...one, content: contents.get(one.id) }))
}

/** An event of a package, for people who may pull the package. */
export interface PackageEvent {
  id: string
  happenedAt: Date
  repositoryPath: string
  packageName: string
  version: string | null
  action: RegistryAction
  username: string | null
  details: Record<string, unknown>
}

/** The actions that everybody who may pull the package sees. The activity page for admins shows the others. */
const packageActions = `('publish', 'import', 'delete', 'restore', 'abandon', 'unabandon', 'quarantine', 'release',
  'advise', 'withdraw')`
/** How many repositories of an account the list reads at most. */
const maxRepositories = 1_000
/** How many of the latest events of each repository the list reads. */
const maxReadOfOne = 50
/** How many of the latest events of the site the list reads for an account with more than `maxRepositories`. */
const maxReadOfSite = 2_000

/**
 * Lists the latest events of packages in the account's repositories. The cost is bounded. For a site administrator, or
 * an account with many repositories, it reads only the latest 2,000 events of the site.
 */
export async function listRecentPackageEvents(
  db: Queryable,
  accountId: string,
  limit: number,
): Promise<PackageEvent[]> {
  const { rows } = await db.query<PackageEvent>(
    `with mine as materialized (
       select m.id
         from (select repository_id as id from counted_repository_member where account_id = $1
               union
               select r.id from counted_group_member g join repository r on r.group_id = g.group_id where g.account_id = $1) m
        limit ${maxRepositories + 1}
     ), kind as materialized (
       select coalesce((select is_admin from account where id = $1), false) as is_site_admin,
              (select count(*) from mine) > ${maxRepositories} as has_many
     ), found as (
       (select e.id from mine
         cross join lateral (select id, action, package from event
                              where repository_id = mine.id order by id desc limit ${maxReadOfOne}) e
         where (select not has_many and not is_site_admin from kind) and e.package is not null and e.action in ${packageActions}
         order by e.id desc limit $2)
       union all
       (select e.id from
               (select id, action, package, repository_id from event e where ${isRegistryEvent} order by id desc limit ${maxReadOfSite}) e
         where (select has_many or is_site_admin from kind) and e.package is not null and e.action in ${packageActions}
           and ((select is_site_admin from kind)
                or exists (select from counted_repository_member where repository_id = e.repository_id and account_id = $1)
                or exists (select from repository r join counted_group_member m on m.group_id = r.group_id
                            where r.id = e.repository_id and m.account_id = $1))
         order by e.id desc limit $2)
     )
     select e.id, e.happened_at as "happenedAt", g.name || '/' || r.name as "repositoryPath",
            e.package as "packageName", e.version, e.action, e.details,
            ${accountName('e.actor_id', 'u.username')} as username
       from found
       join event e on e.id = found.id and ${isRegistryEvent}
       join repository r on r.id = e.repository_id
       join repository_group g on g.id = r.group_id
       left join account u on u.id = e.actor_id
      order by e.id desc limit $2`,
    [accountId, limit],
  )
  return rows
}

/** The latest release of a package in a public repository. */
export interface PublicRelease {
  repositoryPath: string
  packageName: string
  version: string
  description: string
  publishedAt: Date
}

/**
 * Lists the packages of public repositories that were published last, each with its latest publication among the last 2,000
 * events of the site.
 */
export async function listPublicReleases(db: Queryable, limit: number): Promise<PublicRelease[]> {
  const { rows } = await db.query<PublicRelease>(
    `with recent as materialized (
       select id, repository_id, package, version, action, happened_at
         from event e where ${isRegistryEvent} order by id desc limit ${maxReadOfSite}
     ), latest as (
       select distinct on (p.id) e.id, e.version, e.happened_at, p.name, p.description,
              g.name || '/' || r.name as path
         from recent e
         join repository r on r.id = e.repository_id and r.visibility = 'public'
         join repository_group g on g.id = r.group_id
         join package p on p.repository_id = r.id and p.name = e.package
         join package_version v on v.package_id = p.id and v.version = e.version and v.is_listed
        where e.action in ('publish', 'import')
        order by p.id, e.id desc
     )
     select path as "repositoryPath", name as "packageName", version, description, happened_at as "publishedAt"
       from latest order by id desc limit $1`,
    [limit],
  )
  return rows
}

import type { Queryable } from '../../database/database.ts'
import type { ListPart } from '../../domain/paging.ts'
import type { ReleaseRule } from '../../domain/permissions.ts'
import { asCount } from './downloads.ts'
import { findRarePackages } from './matching-packages.ts'

/** A package, for the API and the pages. */
export interface ListedPackage {
  id: string
  name: string
  description: string
  type: string
  keywords: string[]
  isAbandoned: boolean
  /** The replacement of an abandoned package. */
  replacement: string | null
  /** The highest stable version, else the highest version. Null when the package offers no version to Composer. */
  latestVersion: string | null
  latestPublishedAt: Date | null
  /** Whether Composer chooses the latest version by default. */
  isLatestStable: boolean
  /** The number of versions, without deleted ones. */
  versionCount: number
  downloads: number
  createdAt: Date
  /** The rule of the package itself. The repository can have a stricter one. */
  release: ReleaseRule
  /** Whether only trusted publishers publish its versions. */
  onlyTrustedPublishers: boolean
  /** True when all versions are deleted. The name stays claimed. */
  isDeleted: boolean
}

const summaryColumns = `p.id, p.name, p.description, p.type, p.keywords, p.created_at as "createdAt", p.release,
  p.only_trusted_publishers as "onlyTrustedPublishers",
  p.abandoned_at is not null as "isAbandoned", p.replacement,
  latest.version as "latestVersion", latest.published_at as "latestPublishedAt",
  coalesce(is_stable(latest.is_dev, latest.normalized), false) as "isLatestStable",
  ${asCount('(select count from package_download_total where package_id = p.id)')} as downloads`
const columns = `${summaryColumns}, n.count as "versionCount", n.count = 0 as "isDeleted"`
const summaryTables = `package p
  left join lateral (select version, published_at, is_dev, normalized
                       from package_version where id = latest_version(p.id)) latest on true`
const tables = `${summaryTables}
  cross join lateral (select count(*)::integer as count
                        from package_version v where v.package_id = p.id and v.deleted_at is null) n`

/** Lists packages of a repository by name, those that are not deleted or all. */
export async function listPackages(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
  choice: 'undeleted' | 'all' = 'undeleted',
): Promise<ListedPackage[]> {
  const { rows } = await db.query<ListedPackage>(
    `select ${columns} from ${tables}
      where p.repository_id = $1 and p.name > $2 and (n.count > 0 or $4 = 'all')
      order by p.name limit $3`,
    [repositoryId, after ?? '', limit, choice],
  )
  return rows
}

/**
 * Lists packages with a listed version whose name or description contains the text, by name. The index finds a rare
 * text. For other texts the list reads the packages in order and soon finds enough of them.
 */
export async function listOfferedPackages(
  db: Queryable,
  repositoryId: string,
  search: string,
  { after, limit }: ListPart,
): Promise<ListedPackage[]> {
  const rare = await findRarePackages(db, repositoryId, search.toLowerCase())
  const { rows } = await db.query<ListedPackage>(
    `select ${columns} from ${tables}
      where p.repository_id = $1 and p.name > $3 and latest.version is not null
        and ${rare ? 'p.id = any($5)' : '$5::bigint[] is null'}
        and (strpos(p.name, lower($2)) > 0 or strpos(lower(p.description), lower($2)) > 0)
      order by p.name limit $4`,
    [repositoryId, search, after ?? '', limit, rare],
  )
  return rows
}

/** Finds a package of a repository, even a deleted one. Null when the repository never had a package of that name. */
export async function findPackage(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<ListedPackage | null> {
  const { rows } = await db.query<ListedPackage>(
    `select ${columns} from ${tables} where p.repository_id = $1 and p.name = $2`,
    [repositoryId, name],
  )
  return rows[0] ?? null
}

/** The orders of a list of packages, other than by name. */
export type PackageOrder = 'updated' | 'downloads'

/** A package in an ordered list. */
export interface OrderedPackage extends ListedPackage {
  /** The `after` of the next part: the value that the list is ordered by, `-`, and the package's id. */
  place: string
}

/**
 * Like `listOfferedPackages`, but in another order. `updated` has the latest change first. `downloads` has the most
 * downloaded package first, by the ranks of some minutes ago. Both read an index in order. `after` is the place of the
 * last package of the previous part. For an invalid place the list starts at the beginning.
 */
export async function listOfferedPackagesBy(
  db: Queryable,
  order: PackageOrder,
  repositoryId: string,
  search: string,
  { after, limit }: ListPart,
): Promise<OrderedPackage[]> {
  const rare = await findRarePackages(db, repositoryId, search.toLowerCase())
  const [, value = null, id = null] = /^(\d{1,15})-(\d{1,18})$/.exec(after ?? '') ?? []
  const isWanted = `${rare ? 'p.id = any($6)' : '$6::bigint[] is null'}
        and (strpos(p.name, lower($2)) > 0 or strpos(lower(p.description), lower($2)) > 0)
        and exists (select from package_version v where v.package_id = p.id and v.is_listed)`
  const found = {
    // A package has two documents. The package's last change is the later of their two times.
    updated: `select p.id, extract(epoch from d.last_modified)::bigint as value
                from package_document d join package p on p.id = d.package_id
               where d.repository_id = $1 and ${isWanted}
                 and ($3::bigint is null
                      or d.last_modified <= timestamptz 'epoch' + least($3, 99999999999) * interval '1 second'
                         and (extract(epoch from d.last_modified)::bigint, d.package_id) < ($3, $4::bigint))
                 and not exists (select from package_document o
                                  where o.package_id = d.package_id
                                    and (o.last_modified, o.is_dev) > (d.last_modified, d.is_dev))
               order by d.last_modified desc, d.package_id desc limit $5`,
    downloads: `select p.id, r.downloads as value
                  from package_rank r join package p on p.id = r.package_id
                 where r.repository_id = $1 and ${isWanted}
                   and ($3::bigint is null or (r.downloads, r.package_id) < ($3, $4::bigint))
                 order by r.downloads desc, r.package_id desc limit $5`,
  }
  const { rows } = await db.query<OrderedPackage>(
    `select ${columns}, found.value || '-' || p.id as place
       from (${found[order]}) found join ${tables.replace('package p', 'package p on p.id = found.id')}
      order by found.value desc, p.id desc`,
    [repositoryId, search, value, id, limit, rare],
  )
  return rows
}

/** A package without the number of its versions. To count 20,000 versions takes longer than the rest of a page. */
export type PackageSummary = Omit<ListedPackage, 'versionCount' | 'isDeleted'>

/**
 * Finds a package of a repository for its page, even a deleted one. Null when the repository never had a package of
 * that name.
 */
export async function findPackageSummary(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<PackageSummary | null> {
  const { rows } = await db.query<PackageSummary>(
    `select ${summaryColumns} from ${summaryTables} where p.repository_id = $1 and p.name = $2`,
    [repositoryId, name],
  )
  return rows[0] ?? null
}

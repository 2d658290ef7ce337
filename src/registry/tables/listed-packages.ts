import type { Queryable } from '../../database/database.ts'
import type { ListPart } from '../../repositories/list-part.ts'
import { asCount } from './downloads.ts'
import { findRarePackages } from './matching-packages.ts'

/** A package as the API and the pages show it. */
export interface ListedPackage {
  id: string
  name: string
  description: string
  type: string
  keywords: string[]
  isAbandoned: boolean
  /** What to use instead of an abandoned package. */
  replacement: string | null
  /** The highest stable version, else the highest; null when Composer is offered none. */
  latestVersion: string | null
  latestPublishedAt: Date | null
  /** Whether Composer chooses the latest version by default. */
  isLatestStable: boolean
  /** The number of versions, without deleted ones. */
  versionCount: number
  downloads: number
  createdAt: Date
  /** True when all versions are deleted. The name stays claimed. */
  isDeleted: boolean
}

const columns = `p.id, p.name, p.description, p.type, p.keywords, p.created_at as "createdAt",
  p.abandoned_at is not null as "isAbandoned", p.replacement, n.count as "versionCount", n.count = 0 as "isDeleted",
  latest.version as "latestVersion", latest.published_at as "latestPublishedAt",
  coalesce(is_stable(latest.is_dev, latest.normalized), false) as "isLatestStable",
  ${asCount('(select count from package_download_total where package_id = p.id)')} as downloads`
const tables = `package p
  left join lateral (select version, published_at, is_dev, normalized
                       from package_version where id = latest_version(p.id)) latest on true
  cross join lateral (select count(*)::integer as count
                        from package_version v where v.package_id = p.id and v.deleted_at is null) n`

/** Lists packages of a repository by name, without deleted packages. */
export async function listPackages(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
): Promise<ListedPackage[]> {
  const { rows } = await db.query<ListedPackage>(
    `select ${columns} from ${tables}
      where p.repository_id = $1 and p.name > $2 and n.count > 0
      order by p.name limit $3`,
    [repositoryId, after ?? '', limit],
  )
  return rows
}

/**
 * Lists packages with a listed version whose name or description contains the text, by name. A rare text is looked up in
 * the index first. Otherwise the list would read all packages of the repository.
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

/** Finds a package of a repository, deleted or not. Null when the repository never had one of that name. */
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

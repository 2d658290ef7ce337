import type { Queryable } from '../database/database.ts'
import { asCount } from '../registry/tables/downloads.ts'
import type { ListPart } from '../repositories/list-part.ts'

/** A package as it is listed to people and interfaces. */
export interface ListedPackage {
  id: string
  name: string
  description: string
  type: string
  keywords: string[]
  isAbandoned: boolean
  replacement: string | null
  /** The highest stable version, else the highest; null when Composer is offered none. */
  latestVersion: string | null
  /** Without the deleted ones. */
  versionCount: number
  downloads: number
  createdAt: Date
  /** True when nothing is left but the claim to the name. */
  isDeleted: boolean
}

/** A version as it is listed to people and interfaces. */
export interface ListedVersion {
  id: string
  version: string
  /** What Composer knows it by. */
  composer: string
  sha256: string
  sha1: string
  size: number
  /** A username; null once the account is gone. */
  uploader: string | null
  downloads: number
  publishedAt: Date
  deletedAt: Date | null
  purgedAt: Date | null
  quarantinedAt: Date | null
  quarantineReason: string | null
}

const packageColumns = `p.id, p.name, p.description, p.type, p.keywords, p.created_at as "createdAt",
  p.abandoned_at is not null as "isAbandoned", p.replacement, n.count as "versionCount", n.count = 0 as "isDeleted",
  (select v.version from package_version v where v.id = latest_version(p.id)) as "latestVersion",
  ${asCount('(select count from package_download_total where package_id = p.id)')} as downloads`
const packageTables = `package p, lateral (
  select count(*)::int as count from package_version v where v.package_id = p.id and v.deleted_at is null) n`

/** The packages of a repository by name, without those of which nothing is left. */
export async function listPackages(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart,
): Promise<ListedPackage[]> {
  const { rows } = await db.query<ListedPackage>(
    `select ${packageColumns} from ${packageTables}
      where p.repository_id = $1 and p.name > $2 and n.count > 0
      order by p.name limit $3`,
    [repositoryId, after ?? '', limit],
  )
  return rows
}

/** A package of a repository, deleted or not. Null when there was never one of that name. */
export async function findPackage(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<ListedPackage | null> {
  const { rows } = await db.query<ListedPackage>(
    `select ${packageColumns} from ${packageTables} where p.repository_id = $1 and p.name = $2`,
    [repositoryId, name],
  )
  return rows[0] ?? null
}

const versionColumns = `v.id, v.version, v.composer, encode(c.sha256, 'hex') as sha256, encode(c.sha1, 'hex') as sha1,
  c.size::float8 as size, u.username as uploader, v.published_at as "publishedAt", v.deleted_at as "deletedAt",
  v.purged_at as "purgedAt", v.quarantined_at as "quarantinedAt", v.quarantine_reason as "quarantineReason",
  ${asCount('(select count from version_download_total where version_id = v.id)')} as downloads`
const versionTables = `package_version v join archive c on c.sha256 = v.sha256 left join account u on u.id = v.uploader_id`
const versionKey = (version: string) =>
  `(not ${version}.is_dev, ${version}.sort_key, ${version}.published_at, ${version}.id)`

/** Which of a package's versions are listed. */
export type VersionChoice = 'undeleted' | 'all'

/** The versions of a package, the newest first; `after` is the id of one of them. */
export async function listVersions(
  db: Queryable,
  packageId: string,
  choice: VersionChoice,
  { after, limit }: ListPart,
): Promise<ListedVersion[]> {
  const { rows } = await db.query<ListedVersion>(
    `select ${versionColumns} from ${versionTables}
      where v.package_id = $1 and ($2 = 'all' or v.deleted_at is null)
        and ($3::bigint is null or ${versionKey('v')} < (
          select ${versionKey('last').slice(1, -1)} from package_version last where last.id = $3 and last.package_id = $1))
      order by v.is_dev, v.sort_key desc, v.published_at desc, v.id desc
      limit $4`,
    [packageId, choice, /^\d{1,18}$/.test(after ?? '') ? after : null, limit],
  )
  return rows
}

/** A version of a package, deleted or not. Null when there was never one of that number. */
export async function findVersion(
  db: Queryable,
  packageId: string,
  version: string,
): Promise<ListedVersion | null> {
  const { rows } = await db.query<ListedVersion>(
    `select ${versionColumns} from ${versionTables} where v.package_id = $1 and v.version = $2`,
    [packageId, version],
  )
  return rows[0] ?? null
}

import type { JsonObject } from '../../composer/manifest-json.ts'
import type { Queryable } from '../../database/database.ts'
import type { ListPart } from '../../domain/paging.ts'
import type { Attested } from '../../domain/provenance.ts'
import { readRowId } from '../../domain/row-id.ts'
import { asCount } from './downloads.ts'
import { type PublishedBy, publishedByColumns } from './versions.ts'

/** A version, for the API and the pages. */
export interface ListedVersion extends PublishedBy {
  id: string
  version: string
  /** The version in Composer's terms. It is `dev-<version>` if Composer cannot parse the version. */
  composer: string
  /** Composer's normalized form of it. */
  normalized: string
  isDev: boolean
  /** Lower-case hex. */
  sha256: string
  /** Lower-case hex. */
  sha1: string
  /** The size of the archive in bytes. */
  size: number
  downloads: number
  publishedAt: Date
  deletedAt: Date | null
  purgedAt: Date | null
  quarantinedAt: Date | null
  quarantineReason: string | null
  /** What its attestations say. Null without any. */
  attested: Attested[] | null
}

/** A version with the additional values of its page. */
export interface DescribedVersion extends ListedVersion {
  /** Whether `composer require` chooses this version when no version is given. */
  isChosen: boolean
  /** The published metadata of the version's composer.json. */
  metadata: JsonObject
}

const columns = `v.id, v.version, v.composer, v.normalized, v.is_dev as "isDev", encode(c.sha256, 'hex') as sha256,
  encode(c.sha1, 'hex') as sha1, c.size::float8 as size, ${publishedByColumns}, v.published_at as "publishedAt",
  v.deleted_at as "deletedAt", v.purged_at as "purgedAt", v.quarantined_at as "quarantinedAt",
  v.quarantine_reason as "quarantineReason", v.attested,
  ${asCount('(select count from version_download_total where version_id = v.id)')} as downloads`
const tables = `package_version v
  join archive c on c.sha256 = v.sha256`
/** The reverse order of the index `version_order`. */
const newestFirst = '(not v.is_dev) desc, v.sort_key desc, v.published_at desc, v.id desc'

/** Which versions of a package are listed. `undeleted` includes quarantined versions, `installable` does not. */
export type VersionChoice = 'installable' | 'undeleted' | 'all'

/**
 * Lists versions of a package, the newest first. Releases come before development versions. `after` is the id of a
 * version. For an invalid id the list begins with the newest version.
 */
export async function listVersions(
  db: Queryable,
  packageId: string,
  choice: VersionChoice,
  { after, limit }: ListPart,
): Promise<ListedVersion[]> {
  const last = await findPosition(db, packageId, after)
  // Pass single values. With a row from a subquery, PostgreSQL would not start at the position in the index.
  const isOlder = last
    ? 'and ((not v.is_dev), v.sort_key, v.published_at, v.id) < ($4::boolean, $5::text, $6::timestamptz, $7::bigint)'
    : ''
  const { rows } = await db.query<ListedVersion>(
    `select ${columns} from ${tables}
      where v.package_id = $1 and ($2 = 'all' or v.deleted_at is null)
        and ($2 <> 'installable' or v.quarantined_at is null) ${isOlder}
      order by ${newestFirst}
      limit $3`,
    [packageId, choice, limit, ...(last ? [last.isRelease, last.sortKey, last.publishedAt, last.id] : [])],
  )
  return rows
}

/** A stable version that Composer can install. */
export type StableVersion = Pick<ListedVersion, 'version' | 'normalized'>

/** Lists the newest stable versions of a package that Composer can install, the newest first. */
export async function listStableVersions(
  db: Queryable,
  packageId: string,
  limit: number,
): Promise<StableVersion[]> {
  const { rows } = await db.query<StableVersion>(
    `select version, normalized from package_version
      where package_id = $1 and is_listed and not is_dev and is_stable(is_dev, normalized)
      order by sort_key desc, published_at desc, id desc limit $2`,
    [packageId, limit],
  )
  return rows
}

/**
 * Finds the newest stable version before another one that Composer can install. For a development version, it is the
 * newest one of all. Null when there is none.
 */
export async function findPreviousRelease(
  db: Queryable,
  packageId: string,
  { id, isDev }: Pick<ListedVersion, 'id' | 'isDev'>,
): Promise<string | null> {
  const { rows } = await db.query<{ version: string }>(
    `select v.version from package_version v, package_version o
      where v.package_id = $1 and v.is_listed and not v.is_dev and is_stable(v.is_dev, v.normalized)
        and o.id = $2 and ($3 or (v.sort_key, v.published_at, v.id) < (o.sort_key, o.published_at, o.id))
      order by v.sort_key desc, v.published_at desc, v.id desc limit 1`,
    [packageId, id, isDev],
  )
  return rows[0]?.version ?? null
}

/** The position of a version in the list. `publishedAt` is text, because a Date would lose microseconds. */
interface Position {
  id: string
  isRelease: boolean
  sortKey: string
  publishedAt: string
}

async function findPosition(db: Queryable, packageId: string, id: string | null): Promise<Position | null> {
  if (readRowId(id) === null) return null
  const { rows } = await db.query<Position>(
    `select id, not is_dev as "isRelease", sort_key as "sortKey", published_at::text as "publishedAt"
       from package_version where id = $1 and package_id = $2`,
    [id, packageId],
  )
  return rows[0] ?? null
}

/** Finds a version of a package, even a deleted one. Null when that version never existed. */
export async function findVersion(
  db: Queryable,
  packageId: string,
  version: string,
): Promise<ListedVersion | null> {
  const { rows } = await db.query<ListedVersion>(
    `select ${columns} from ${tables} where v.package_id = $1 and v.version = $2`,
    [packageId, version],
  )
  return rows[0] ?? null
}

/**
 * Finds a version of a package that is not deleted. Null when there is none. When `version` is null, it finds the
 * latest version, or a quarantined one when no version is listed.
 */
export async function findDescribedVersion(
  db: Queryable,
  packageId: string,
  version: string | null,
): Promise<DescribedVersion | null> {
  const { rows } = await db.query<DescribedVersion>(
    `with latest as materialized (select latest_version($1) as id),
          chosen as materialized (
            ${version === null ? latestOrNewest : 'select id from package_version where package_id = $1 and version = $2'}
          )
     select ${columns}, v.metadata,
            is_stable(v.is_dev, v.normalized) and v.id = (select id from latest) as "isChosen"
       from ${tables}
      where v.id = (select id from chosen) and v.deleted_at is null`,
    version === null ? [packageId] : [packageId, version],
  )
  return rows[0] ?? null
}

/**
 * The latest version. When no version is listed, all versions are in quarantine. Then it is the highest stable version
 * in quarantine, else the highest one.
 */
const latestOrNewest = `
  select coalesce(
    (select id from latest),
    (select v.id from package_version v
      where v.package_id = $1 and v.deleted_at is null and (select id from latest) is null
      order by is_stable(v.is_dev, v.normalized) desc, ${newestFirst} limit 1)) as id`

import type { Queryable } from '../../database/database.ts'
import type { Role } from '../../domain/permissions.ts'
import type { Repository } from '../../repositories/repositories.ts'
import type { JsonObject } from '../manifest/manifest-json.ts'
import { asCount } from './downloads.ts'

/** A repository as it stands to whoever looks at its page. */
export interface VisibleRepository extends Repository {
  /** Null: the repository is public, and the visitor has no role on it. */
  role: Role | null
}

/** The repository at that path, if the account may see it; a null account is anybody. Null otherwise. */
export async function findVisibleRepository(
  db: Queryable,
  { group, name }: { group: string; name: string },
  accountId: string | null,
): Promise<VisibleRepository | null> {
  const { rows } = await db.query<VisibleRepository>(
    `select r.id, g.name || '/' || r.name as path, r.visibility, r.description, role_of($3, r.id) as role
       from repository r join repository_group g on g.id = r.group_id
      where g.name = $1 and r.name = $2 and (r.visibility = 'public' or role_of($3, r.id) is not null)`,
    [group, name, accountId],
  )
  return rows[0] ?? null
}

const isRelease = 'is_stable(v.is_dev, v.normalized)'

/** A package in a list. */
export interface ListedPackage {
  name: string
  description: string
  isAbandoned: boolean
  /** The highest stable version, else the highest. */
  version: string
  isRelease: boolean
  publishedAt: Date
}

/** Packages with a listed version whose name or description holds the text, by name, from after a name. */
export async function listPackages(
  db: Queryable,
  repositoryId: string,
  { search, after, limit }: { search: string; after: string; limit: number },
): Promise<ListedPackage[]> {
  const { rows } = await db.query<ListedPackage>(
    `select p.name, p.description, p.abandoned_at is not null as "isAbandoned",
            newest.version, newest.published_at as "publishedAt", newest."isRelease"
       from package p
       join lateral (
              select v.version, v.published_at, ${isRelease} as "isRelease"
                from package_version v
               where v.id = latest_version(p.id)) newest on true
      where p.repository_id = $1 and p.name collate "C" > $3
        and (strpos(p.name, lower($2)) > 0 or strpos(lower(p.description), lower($2)) > 0)
      order by p.name collate "C"
      limit $4`,
    [repositoryId, search, after, limit],
  )
  return rows
}

/** A package on its page. */
export interface PackageOnPage {
  id: string
  name: string
  isAbandoned: boolean
  /** What to use instead, of an abandoned one. */
  replacement: string | null
  downloads: number
}

/** Null when the repository has no package of that name with a version that was not deleted. */
export async function findPackage(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<PackageOnPage | null> {
  const { rows } = await db.query<PackageOnPage>(
    `select p.id, p.name, p.abandoned_at is not null as "isAbandoned", p.replacement,
            ${asCount('(select count from package_download_total where package_id = p.id)')} as downloads
       from package p
      where p.repository_id = $1 and p.name = $2
        and exists (select from package_version where package_id = p.id and deleted_at is null)`,
    [repositoryId, name],
  )
  return rows[0] ?? null
}

/** A version in the list of its package. */
export interface ListedVersion {
  version: string
  isDev: boolean
  publishedAt: Date
  /** In bytes. */
  size: number
  uploader: string | null
  /** Why it is withheld from Composer; null when it is not. */
  quarantineReason: string | null
}

/**
 * The versions of a package that were not deleted, the newest first, releases before development versions; from after
 * a version, or from the first.
 */
export async function listVersionsOnPage(
  db: Queryable,
  packageId: string,
  { after, limit }: { after: string | null; limit: number },
): Promise<ListedVersion[]> {
  const { rows } = await db.query<ListedVersion>(
    `select v.version, v.is_dev as "isDev", v.published_at as "publishedAt", c.size::float8 as size,
            a.username as uploader,
            case when v.quarantined_at is not null then coalesce(v.quarantine_reason, '') end as "quarantineReason"
       from package_version v
       join archive c on c.sha256 = v.sha256
       left join account a on a.id = v.uploader_id
      where v.package_id = $1 and v.deleted_at is null
        and ($2::text is null
             or (not v.is_dev, v.sort_key, v.published_at, v.id)
              < (select not is_dev, sort_key, published_at, id
                   from package_version where package_id = $1 and version = $2))
      order by v.is_dev, v.sort_key desc, v.published_at desc, v.id desc
      limit $3`,
    [packageId, after, limit],
  )
  return rows
}

/** A version in full. */
export interface VersionOnPage extends ListedVersion {
  id: string
  /** What Composer requires it by, where that differs: `dev-1.0.0-foo`. */
  composer: string
  /** Whether it is what `composer require` chooses when no version is named. */
  isChosen: boolean
  /** Lower-case hex. */
  sha256: string
  /** What its composer.json says. */
  metadata: JsonObject
}

/** One version of a package; the latest when none is named. Null when there is none. */
export async function findVersionOnPage(
  db: Queryable,
  packageId: string,
  version: string | null,
): Promise<VersionOnPage | null> {
  const { rows } = await db.query<VersionOnPage>(
    `select v.id, v.version, v.composer, v.is_dev as "isDev", v.published_at as "publishedAt", c.size::float8 as size,
            encode(v.sha256, 'hex') as sha256, v.metadata, a.username as uploader,
            ${isRelease} and v.id = (select latest_version($1)) as "isChosen",
            case when v.quarantined_at is not null then coalesce(v.quarantine_reason, '') end as "quarantineReason"
       from package_version v
       join archive c on c.sha256 = v.sha256
       left join account a on a.id = v.uploader_id
      where v.package_id = $1 and v.deleted_at is null and ($2::text is null or v.version = $2)
      order by v.id = (select latest_version($1)) desc nulls last,
               ${isRelease} desc, v.is_dev, v.sort_key desc, v.published_at desc, v.id desc
      limit 1`,
    [packageId, version],
  )
  return rows[0] ?? null
}

import type pg from 'pg'
import { type Queryable, together } from '../../database/database.ts'
import { formatTime } from '../../domain/formats.ts'
import type { ReleaseRule } from '../../domain/permissions.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { sharePathLock } from '../../groups/path-locks.ts'
import { claimVendorOfPackage } from '../../upstreams/tables/vendor-claims.ts'
import { saveDependencies } from './dependencies.ts'
import { rankNewPackage } from './downloads.ts'
import { findReservation, mayTakeName } from './reserved-names.ts'

/** A package whose row is locked by this transaction. No other transaction can change its versions and documents. */
export interface LockedPackage {
  id: string
  repositoryId: string
  /** The repository's path, `acme/php`. */
  path: string
  name: string
  /** The value of Composer's `abandoned`: true, or the name of the replacement. Null for a maintained package. */
  abandoned: true | string | null
  /** Whether only trusted publishers publish its versions. */
  onlyTrustedPublishers: boolean
  /** True when this transaction created it. */
  isNew: boolean
}

const heldColumns = `p.id, p.repository_id as "repositoryId", p.name, p.created_at = now() as "isNew",
  p.only_trusted_publishers as "onlyTrustedPublishers",
  case when p.abandoned_at is not null then coalesce(to_json(p.replacement), 'true') end as abandoned,
  (select g.name || '/' || r.name from repository r join repository_group g on g.id = r.group_id
    where r.id = p.repository_id) as path`

/** SQL: whether the repository with this id is in a group. It may have been deleted since the request was permitted. */
const isThere = (id: string) => `exists (select from repository where id = ${id} and group_id is not null)`

/**
 * Creates the package if none has that name: claims its vendor, and gives it a place in the list by downloads. Locks its
 * row until the transaction ends. Throws errcode 5 when the repository was deleted, and 9 with 409 when the name is reserved
 * for trusted publishers, and the uploader is none of them.
 */
export async function claimPackage(
  tx: pg.PoolClient,
  repositoryId: string,
  name: string,
  uploader: Pick<Principal, 'token'>,
): Promise<LockedPackage> {
  const [, { rows }] = await together([
    tx.query({ name: 'keep-path', text: sharePathLock('id = $1'), values: [repositoryId] }),
    tx.query<LockedPackage>({
      name: 'claim-package',
      text: `insert into package as p (repository_id, name) select $1::bigint, $2
              where ${isThere('$1')}
                and (exists (select from package where repository_id = $1 and name = $2)
                     or ${mayTakeName('$1', '$2', '$3')})
             on conflict (repository_id, name) do update set name = excluded.name
             returning ${heldColumns}`,
      values: [repositoryId, name, uploader.token?.publishers ?? []],
    }),
  ])
  const [held] = rows
  if (!held) throw await whyNotClaimed(tx, repositoryId, name)
  if (held.isNew) await together([claimVendorOfPackage(tx, held), rankNewPackage(tx, held)])
  return held
}

async function whyNotClaimed(tx: pg.PoolClient, repositoryId: string, name: string): Promise<Refusal> {
  const reservation = await findReservation(tx, repositoryId, name)
  if (!reservation) return new Refusal(errcode.notFound, 'repository not found')
  const { publisherId, until } = reservation
  const errmsg = `${name} is reserved for a trusted publisher until ${formatTime(until)}`
  const warning = `Publish the first version with its CI job, or ask an admin of the repository to remove the trusted publisher ${publisherId}.`
  return new Refusal(errcode.failedPrecondition, errmsg, { status: 409, warning })
}

/** Locks a package's row until the transaction ends. Null when the package does not exist. */
export async function lockPackage(tx: pg.PoolClient, packageId: string): Promise<LockedPackage | null> {
  const [, { rows }] = await together([
    tx.query(sharePathLock('id = (select repository_id from package where id = $1)'), [packageId]),
    tx.query<LockedPackage>(
      `select ${heldColumns} from package p
        where p.id = $1 and ${isThere('p.repository_id')} for no key update`,
      [packageId],
    ),
  ])
  return rows[0] ?? null
}

/** Locks the row of a repository's package until the transaction ends. Null when no package has that name. */
export async function lockNamedPackage(
  tx: pg.PoolClient,
  repositoryId: string,
  name: string,
): Promise<LockedPackage | null> {
  const [, { rows }] = await together([
    tx.query(sharePathLock('id = $1'), [repositoryId]),
    tx.query<LockedPackage>(
      `select ${heldColumns} from package p
        where p.repository_id = $1 and p.name = $2 and ${isThere('$1')} for no key update`,
      [repositoryId, name],
    ),
  ])
  return rows[0] ?? null
}

/**
 * Stores whether a package is abandoned. Takes the value of Composer's `abandoned`, or null for a maintained package.
 */
export async function saveAbandonment(
  tx: pg.PoolClient,
  packageId: string,
  abandoned: true | string | null,
): Promise<void> {
  await tx.query(
    `update package
        set abandoned_at = case when $2 then coalesce(abandoned_at, now()) end, replacement = $3
      where id = $1`,
    [packageId, abandoned !== null, typeof abandoned === 'string' ? abandoned : null],
  )
}

/** Stores whether only trusted publishers publish versions of a package. */
export async function saveOnlyTrustedPublishers(
  tx: pg.PoolClient,
  packageId: string,
  isOnly: boolean,
): Promise<void> {
  await tx.query('update package set only_trusted_publishers = $2 where id = $1', [packageId, isOnly])
}

/** Stores how versions of a package are released. Returns the rule before. */
export async function saveReleaseRule(
  tx: pg.PoolClient,
  packageId: string,
  release: ReleaseRule,
): Promise<ReleaseRule> {
  const { rows } = await tx.query<{ former: ReleaseRule }>(
    `update package p set release = $2 from (select id, release from package where id = $1) former
      where p.id = former.id returning former.release as former`,
    [packageId, release],
  )
  return rows[0]?.former ?? release
}

/**
 * Copies a package's description from its latest version, for lists and searches, and its requirements, for lists of
 * dependents.
 */
export async function copyFromLatest(
  tx: pg.PoolClient,
  { id: packageId, repositoryId }: Pick<LockedPackage, 'id' | 'repositoryId'>,
): Promise<void> {
  const description = tx.query({
    name: 'copy-description',
    text: `update package p
              set description = coalesce(v.metadata ->> 'description', ''),
                  type = coalesce(v.metadata ->> 'type', 'library'),
                  keywords = array(select json_array_elements_text(v.metadata -> 'keywords')),
                  provides = array(select json_object_keys(v.metadata -> 'provide'))
             from (select readable_json(metadata) as metadata
                     from package_version where id = latest_version($1)) v
            where p.id = $1`,
    values: [packageId],
  })
  await together([description, saveDependencies(tx, { id: packageId, repositoryId })])
}

/**
 * Removes a package's description after a purge, unless a version is listed. Takes the one of the newest version that is
 * not purged, if any.
 */
export async function forgetDescription(tx: pg.PoolClient, packageId: string): Promise<void> {
  await tx.query(
    `update package p
        set description = coalesce(v.metadata ->> 'description', ''),
            type = coalesce(v.metadata ->> 'type', 'library'),
            keywords = array(select json_array_elements_text(v.metadata -> 'keywords')),
            provides = array(select json_object_keys(v.metadata -> 'provide'))
       from (select (select readable_json(metadata) from package_version
                      where package_id = $1 and purged_at is null
                      order by is_dev, sort_key desc, published_at desc, id desc limit 1) as metadata) v
      where p.id = $1 and latest_version($1) is null`,
    [packageId],
  )
}

/** The content of a repository's packages.json, and its revision. */
export interface Listing {
  /** `acme/php`. */
  path: string
  revision: string
  /** Whether the repository has upstreams. */
  hasUpstreams: boolean
  /** All names that were ever published, in byte order. Names without versions stay claimed. */
  names: string[]
  /** The vendors of all names when there are more than `maxNames` names. `names` is incomplete then. Null otherwise. */
  vendors: string[] | null
}

/**
 * Reads the content of a repository's packages.json in one snapshot. Null when the repository was deleted or has no
 * listing.
 */
export async function findListing(
  db: Queryable,
  repositoryId: string,
  maxNames: number,
): Promise<Listing | null> {
  const { rows } = await db.query<Listing>(
    `with recursive listed as materialized (
       select name from package where repository_id = $1 order by name collate "C" limit $2::int + 1
     ), vendor (name) as (
       select split_part(min(name collate "C"), '/', 1) from listed having count(*) > $2
       union all
       -- Skips to the next vendor, because in byte order 0 follows the slash. This needs one lookup for each vendor.
       select (select split_part(p.name, '/', 1) from package p
                where p.repository_id = $1 and p.name collate "C" >= v.name || '0'
                order by p.name collate "C" limit 1)
         from vendor v where v.name is not null
     )
     select g.name || '/' || r.name as path, l.revision,
            exists (select from upstream where repository_id = r.id and removed_at is null) as "hasUpstreams",
            array(select name from listed limit $2) as names,
            case when exists (select from vendor) then array(select name from vendor where name is not null) end as vendors
       from repository r
       join repository_group g on g.id = r.group_id
       join repository_listing l on l.repository_id = r.id
      where r.id = $1`,
    [repositoryId, maxNames],
  )
  return rows[0] ?? null
}

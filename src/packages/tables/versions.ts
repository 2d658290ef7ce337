import type pg from 'pg'
import type { ArchiveUrl } from '../../archives/archive-url.ts'
import { type PublishedVersion, versionSortKey } from '../../composer/composer-version.ts'
import type { JsonObject } from '../../composer/manifest-json.ts'
import { accountName } from '../../database/account-name.ts'
import { type Queryable, sweepOf } from '../../database/database.ts'
import type { PublisherRun } from '../../domain/publisher.ts'
import type { WithAccess } from '../../groups/access.ts'
import { type ForRequest, forEachRequest, oneRow } from '../../groups/for-each-request.ts'
import type { EntrySource } from '../documents/entry.ts'

/** SQL for the name of the deploy token that published a version `v`. Null when no deploy token published it. */
const deployTokenName = '(select name from deploy_token where id = v.deploy_token_id)'

/** Who published a version. All are null when a command did, such as an import. */
export interface PublishedBy {
  /** The username, or `deleted account`. Null when no account published the version. */
  uploader: string | null
  /** The name of the deploy token that published it. Null when no deploy token did. */
  deployToken: string | null
  /** The CI job whose token of a trusted publisher published it, or the Git source. Null when neither did. */
  run: PublisherRun | null
}

/** SQL for the columns of `PublishedBy` of a version `v`. */
export const publishedByColumns = `${accountName('v.uploader_id')} as uploader, ${deployTokenName} as "deployToken", v.publisher_run as run`

/** A version to insert. */
export interface NewVersion {
  packageId: string
  version: PublishedVersion
  metadata: JsonObject
  sha256: string
  uploaderId: string | null
  deployTokenId: string | null
  /** The CI job of a trusted publisher, or the Git source. Null for anybody else. */
  run: PublisherRun | null
  /** The time of publication. Null for now. */
  publishedAt?: Date | null
}

/**
 * Inserts a version and returns its id. Null when the version exists, or another version that is equal for Composer.
 */
export async function insertVersion(tx: pg.PoolClient, fresh: NewVersion): Promise<string | null> {
  const { packageId, version, metadata, sha256, uploaderId, deployTokenId, run, publishedAt = null } = fresh
  const { rows } = await tx.query<{ id: string }>({
    name: 'insert-version',
    text: `insert into package_version
             (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256, uploader_id, published_at,
              deploy_token_id, publisher_run)
           values ($1, $2, $3, $4, $5, $6, $7, decode($8, 'hex'), $9, coalesce($10::timestamptz, now()), $11, $12)
           on conflict (package_id, normalized) do nothing
           returning id`,
    values: [
      packageId,
      version.version,
      version.composerVersion,
      version.normalized,
      version.isDev,
      versionSortKey(version.normalized),
      JSON.stringify(metadata),
      sha256,
      uploaderId,
      publishedAt,
      deployTokenId,
      run && JSON.stringify(run),
    ],
  })
  return rows[0]?.id ?? null
}

/** The version that already has a version number. */
export interface TakenVersion {
  version: string
  sha256: string
  isDeleted: boolean
  /** The commit from which a Git source or a CI job published it. Null when it is not known. */
  commit: string | null
}

/** Finds the version with a normalized number in a package, even a deleted one. Null when the number is free. */
export async function findTakenVersion(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  normalized: string,
): Promise<TakenVersion | null> {
  const { rows } = await db.query<TakenVersion>({
    name: 'find-taken-version',
    text: `select v.version, encode(v.sha256, 'hex') as sha256, v.deleted_at is not null as "isDeleted",
                  v.publisher_run ->> 'commit' as commit
             from package p join package_version v on v.package_id = p.id
            where p.repository_id = $1 and p.name = $2 and v.normalized = $3`,
    values: [repositoryId, packageName, normalized],
  })
  return rows[0] ?? null
}

/**
 * Unlists the development version of a branch whose content becomes another one. Returns its id. Null when the content is
 * the same, when the version was deleted, and when another version is equal for Composer.
 */
export async function unlistReplaced(
  tx: pg.PoolClient,
  { packageId, version, metadata, sha256 }: NewVersion,
): Promise<string | null> {
  const { rows } = await tx.query<{ id: string }>(
    `update package_version set deleted_at = now(), difference = null
      where package_id = $1 and normalized = $2 and version = $3 and deleted_at is null
        and (sha256 <> decode($4, 'hex') or metadata::text <> $5)
  returning id`,
    [packageId, version.normalized, version.version, sha256, JSON.stringify(metadata)],
  )
  return rows[0]?.id ?? null
}

/**
 * Gives an unlisted version of `unlistReplaced` its new content, and lists it again. Its former archive stays for lock files
 * (`deleteFormerArchives`).
 */
export async function replaceVersion(
  tx: pg.PoolClient,
  versionId: string,
  { metadata, sha256, uploaderId, deployTokenId, run }: NewVersion,
): Promise<void> {
  await tx.query(
    `with kept as (
       insert into former_archive (version_id, sha256)
       select id, sha256 from package_version where id = $1 and sha256 <> decode($2, 'hex')
     ), current as (
       delete from former_archive where version_id = $1 and sha256 = decode($2, 'hex')
     ), readme as (
       delete from version_readme where version_id = $1
     )
     update package_version
        set sha256 = decode($2, 'hex'), metadata = $3, uploader_id = $4, deploy_token_id = $5, publisher_run = $6,
            published_at = now(), deleted_at = null, retired_at = null
      where id = $1`,
    [versionId, sha256, JSON.stringify(metadata), uploaderId, deployTokenId, run && JSON.stringify(run)],
  )
}

/** How long lock files get the former archives of a development version. */
const formerArchiveDays = 90

/** Deletes the former archives that were replaced long ago, at most `limit`, and returns how many. */
export const deleteFormerArchives = sweepOf(
  'former_archive',
  'version_id, sha256',
  `replaced_at < now() - interval '${formerArchiveDays} days'`,
)

/** A version, and its position relative to another version in their document. */
export interface Neighbour extends EntrySource {
  id: string
  place: 'newer' | 'self' | 'older'
}

const entryColumns = `v.id, v.version, v.composer, v.normalized, v.metadata, v.published_at as "publishedAt",
  encode(v.sha256, 'hex') as sha256, encode(c.sha1, 'hex') as sha1`

/**
 * Lists the version itself, if it is listed, and the next newer and older listed versions in its document, the newest
 * first. A change of the version affects no other entries of the document.
 */
export async function listNeighbours(tx: pg.PoolClient, versionId: string): Promise<Neighbour[]> {
  const key = '(v.sort_key, v.published_at, v.id)'
  const selfKey = '(self.sort_key, self.published_at, self.id)'
  const listedBeside = (place: string, order: string, comparison: string) =>
    `(select '${place}' as place, ${entryColumns}
        from package_version v join archive c on c.sha256 = v.sha256, self
       where v.package_id = self.package_id and v.is_dev = self.is_dev and v.is_listed and ${key} ${comparison} ${selfKey}
       order by v.sort_key ${order}, v.published_at ${order}, v.id ${order} limit 1)`
  const { rows } = await tx.query<Neighbour>({
    name: 'list-neighbours',
    text: `with self as materialized (
             select package_id, is_dev, sort_key, published_at, id from package_version where id = $1
           )
           ${listedBeside('newer', 'asc', '>')}
           union all ${listedBeside('self', 'asc', '=')}
           union all ${listedBeside('older', 'desc', '<')}`,
    values: [versionId],
  })
  return rows
}

/** Part of a document's listed versions, the newest first. */
export interface DocumentPart {
  packageId: string
  isDev: boolean
  /** The part begins after the version with this id. Null for the beginning. */
  after: string | null
  limit: number
}

const isInPart = `v.package_id = $1 and v.is_dev = $2 and v.is_listed
  and ($3::bigint is null
       or (v.sort_key, v.published_at, v.id)
        < (select sort_key, published_at, id from package_version where id = $3))`
const newestFirst = 'v.sort_key desc, v.published_at desc, v.id desc'

/** Lists part of the listed versions of one document, the newest first. */
export async function listEntrySources(
  tx: pg.PoolClient,
  { packageId, isDev, after, limit }: DocumentPart,
): Promise<(EntrySource & { id: string })[]> {
  const { rows } = await tx.query<EntrySource & { id: string }>({
    name: 'list-entry-sources',
    text: `select ${entryColumns}
             from package_version v join archive c on c.sha256 = v.sha256
            where ${isInPart}
            order by ${newestFirst} limit $4`,
    values: [packageId, isDev, after, limit],
  })
  return rows
}

/** Stores the minified entries of versions: [id, JSON text]. */
export async function saveDifferences(tx: pg.PoolClient, differences: [string, string][]): Promise<void> {
  await tx.query({
    name: 'save-differences',
    text: `update package_version v set difference = d.difference
             from unnest($1::bigint[], $2::text[]) as d (id, difference)
            where v.id = d.id`,
    values: [differences.map(([id]) => id), differences.map(([, text]) => text)],
  })
}

/**
 * Joins part of the minified entries of a document to the inside of a JSON array. Returns the number of entries and the
 * id of the last one, or null when there is none.
 */
export async function joinDifferences(
  tx: pg.PoolClient,
  { packageId, isDev, after, limit }: DocumentPart,
): Promise<{ entries: string; count: number; last: string | null }> {
  const { rows } = await tx.query<{ entries: string; count: number; last: string | null }>({
    name: 'join-differences',
    text: `select coalesce(string_agg(difference, ',' order by ${newestFirst}), '') as entries,
                  count(*)::integer as count, (array_agg(id order by ${newestFirst}))[count(*)] as last
             from (select v.id, v.sort_key, v.published_at, v.difference
                     from package_version v
                    where ${isInPart}
                    order by ${newestFirst} limit $4) v`,
    values: [packageId, isDev, after, limit],
  })
  return rows[0] as { entries: string; count: number; last: string | null }
}

/** The archive of a version, with the access to its repository. */
export interface FoundDownload extends WithAccess {
  /** Null when the version does not exist, is purged, or has another archive. */
  size: number | null
  /** The same for a staged version, which only people who may push get. */
  stagedSize: number | null
  /** The reason of the version's quarantine. Null when the version is not in quarantine. */
  quarantineReason: string | null
  /** True when the repository does not have the archive, but an upstream has served the package. */
  wasMirrored: boolean
}

/**
 * Finds the archives of versions that are not purged, by their SHA-256. Deleted versions are included, and staged ones.
 * Returns one result for each wanted archive, in their order.
 */
export function listDownloads(
  db: Queryable,
  wanted: readonly ForRequest<ArchiveUrl>[],
): Promise<FoundDownload[]> {
  return queryDownloads(db, {
    targets: wanted.map(({ target }) => target),
    columns: [
      wanted.map(({ packageName }) => packageName),
      wanted.map(({ version }) => version),
      wanted.map(({ reference }) => reference),
    ],
  })
}

const queryDownloads = forEachRequest<FoundDownload>({
  name: 'list-downloads',
  columns: { package_name: 'text', version: 'text', sha256: 'text' },
  // Use no join with archive. PostgreSQL 18 would look the archive up by the hash of the call, even when there is
  // no version.
  query: `
    select case when v.id is not null then (select size from archive where sha256 = decode(call.sha256, 'hex')) end::float8
             as size,
           case when v.id is null then (
             select (select size from archive where sha256 = s.sha256) from staged_version s
              where s.repository_id = a.repository_id and s.package_name = call.package_name and s.version = call.version
                and s.sha256 = decode(call.sha256, 'hex') and s.state = 'staged' and s.expires_at > now()) end::float8
             as "stagedSize",
           case when v.quarantined_at is not null then coalesce(v.quarantine_reason, '') end as "quarantineReason",
           v.id is null and exists (select from mirrored_package m where m.repository_id = a.repository_id
                                       and m.name = call.package_name) as "wasMirrored"
     from ${oneRow}
     left join package p on p.repository_id = a.repository_id and p.name = call.package_name
     left join package_version v on v.package_id = p.id and v.version = call.version and v.purged_at is null
            and (v.sha256 = decode(call.sha256, 'hex')
                 or exists (select from former_archive f where f.version_id = v.id and f.sha256 = decode(call.sha256, 'hex')))`,
})

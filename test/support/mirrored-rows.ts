import type { Queryable } from '../../src/database/database.ts'

/** A package that a repository mirrors, as it is stored. */
export interface MirroredPackageRow {
  name: string
  description: string
  /** The upstream that serves it. Null when none does. */
  upstreamId: string | null
  upstream: string | null
  isApproved: boolean
  /** The versions that the malware summary of its upstream flags. */
  flaggedVersions: string | null
}

/** Lists mirrored packages in the order of their names: those of a repository, or those with a name. */
export async function mirroredPackages(
  db: Queryable,
  of: { id: string } | string,
): Promise<MirroredPackageRow[]> {
  const { rows } = await db.query<MirroredPackageRow>(
    `select m.name, m.description, m.upstream_id as "upstreamId", u.name as upstream, m.approved_at is not null as "isApproved",
            m.summary as "flaggedVersions"
       from mirrored_package m left join upstream u on u.id = m.upstream_id
      where m.repository_id = $1 or m.name = $2 order by m.name`,
    typeof of === 'string' ? [null, of] : [of.id, null],
  )
  return rows
}

/** What the tests say about a mirrored package. Everything else is as if svc had never heard of it. */
export interface NewMirroredPackage {
  upstreamId?: string
  description?: string
  isSeen?: boolean
  isRequested?: boolean
  requesterId?: string
  isApproved?: boolean
}

/** Adds mirrored packages to a repository. */
export async function aMirroredPackage(
  db: Queryable,
  repository: { id: string },
  names: string | string[],
  about: NewMirroredPackage = {},
): Promise<void> {
  await db.query(
    `insert into mirrored_package
       (repository_id, name, upstream_id, description, first_seen_at, requested_at, requester_id, approved_at)
     select $1, unnest($2::text[]), $3, $4, case when $5 then now() end, case when $6 then now() end, $7,
            case when $8 then now() end`,
    [
      repository.id,
      [names].flat(),
      about.upstreamId ?? null,
      about.description ?? '',
      about.isSeen ?? false,
      about.isRequested ?? false,
      about.requesterId ?? null,
      about.isApproved ?? false,
    ],
  )
}

/** Lets an upstream serve the packages of this name. Null: none does. */
export async function bindName(db: Queryable, name: string, upstreamId: string | null): Promise<void> {
  await db.query('update mirrored_package set upstream_id = $2 where name = $1', [name, upstreamId])
}

/** Locks a mirrored package until the end of the transaction. */
export async function lockMirroredPackage(tx: Queryable, name: string): Promise<void> {
  await tx.query('select from mirrored_package where name = $1 for update', [name])
}

/** Lets the malware summary of the upstream flag versions of a package. */
export async function flagVersions(db: Queryable, name: string, versions: string): Promise<void> {
  await db.query('update mirrored_package set summary = $2 where name = $1', [name, versions])
}

/** Makes of the documents and packages of a repository's upstreams what a release before format 3 has stored. */
export async function forgetLicenses(db: Queryable, repository: { id: string }): Promise<void> {
  await db.query(
    `with m as (update mirrored_package set licenses = '[]' where repository_id = $1 returning id)
     update mirrored_document set format = 2 where package_id in (select id from m)`,
    [repository.id],
  )
}

/** An archive of a mirrored package, as it is stored. */
export interface MirroredArchiveRow {
  id: string
  name: string
  version: string
  reference: string
  sha256: string | null
  alarm: string | null
  isStored: boolean
  firstSeenAt: Date
  usedOn: Date | null
  wasDownloaded: boolean
  upstreamId: string | null
  /** For how long a process still has the turn to fetch it. */
  fetchingSeconds: number | null
}

/** Lists the archives of mirrored packages in the order of their references: all, or those of one package. */
export async function mirroredArchives(
  db: Queryable,
  packageName: string | null = null,
): Promise<MirroredArchiveRow[]> {
  const { rows } = await db.query<MirroredArchiveRow>(
    `select a.id, m.name, a.version, a.reference, encode(a.sha256, 'hex') as sha256, a.alarm,
            a.is_stored as "isStored", a.first_seen_at as "firstSeenAt", a.used_on as "usedOn",
            a.was_downloaded as "wasDownloaded", a.upstream_id as "upstreamId",
            extract(epoch from a.fetching_until - now())::float8 as "fetchingSeconds"
       from mirrored_archive a join mirrored_package m on m.id = a.package_id
      where $1::text is null or m.name = $1 order by a.reference`,
    [packageName],
  )
  return rows
}

/** What the tests say about an archive of a mirrored package. */
export interface NewMirroredArchive {
  version?: string
  reference?: string
  alarm?: string
  alarmedHoursAgo?: number
  /** The hash of the bytes that svc has fetched. */
  sha256?: string
  isStored?: boolean
}

/** Adds an archive to the latest mirrored package of this name. Returns its id. */
export async function aMirroredArchive(
  db: Queryable,
  packageName: string,
  about: NewMirroredArchive = {},
): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `insert into mirrored_archive
       (package_id, version_path, reference, version, normalized, type, url, sha256, is_stored, alarm, alarmed_at, upstream_id)
     select id, $2, $3, $2, $2, 'zip', 'https://x.example/1.zip', decode($4, 'hex'), $5, $6,
            now() - make_interval(hours => $7), case when $4 is not null then upstream_id end
       from mirrored_package where name = $1 order by id desc limit 1
     returning id`,
    [
      packageName,
      about.version ?? '1.0.0',
      about.reference ?? 'a1b2c3d4',
      about.sha256 ?? null,
      about.isStored ?? false,
      about.alarm ?? null,
      about.alarm === undefined ? null : (about.alarmedHoursAgo ?? 0),
    ],
  )
  return rows[0]?.id ?? ''
}

/** Forgets the files of mirrored archives, like a collection of garbage: of all, or of those of one package. */
export async function forgetFiles(db: Queryable, packageName: string | null = null): Promise<void> {
  await db.query(
    `update mirrored_archive a set is_stored = false from mirrored_package m
      where m.id = a.package_id and ($1::text is null or m.name = $1)`,
    [packageName],
  )
}

/** Records that the files of all mirrored archives are stored. */
export async function rememberFiles(db: Queryable): Promise<void> {
  await db.query('update mirrored_archive set is_stored = true')
}

/** Forgets that svc has fetched a version of a mirrored package. Returns the id of its archive. */
export async function forgetFetch(db: Queryable, packageName: string, version: string): Promise<string> {
  const { rows } = await db.query<{ id: string }>(
    `update mirrored_archive a set sha256 = null, is_stored = false from mirrored_package m
      where m.id = a.package_id and m.name = $1 and a.version = $2 returning a.id`,
    [packageName, version],
  )
  return rows[0]?.id ?? ''
}

/** Raises the alarm for an archive whose bytes had this hash at the first fetch, and forgets its file. */
export async function changeBytes(db: Queryable, archiveId: string, sha256: string): Promise<void> {
  await db.query(
    `update mirrored_archive set alarm = 'changed', is_stored = false, sha256 = decode($2, 'hex') where id = $1`,
    [archiveId, sha256],
  )
}

/** Gives a process the turn to fetch archives, for seconds from now on: all, or one. */
export async function takeFetch(
  db: Queryable,
  seconds: number,
  archiveId: string | null = null,
): Promise<void> {
  await db.query(
    `update mirrored_archive set fetching_until = now() + make_interval(secs => $1)
      where $2::bigint is null or id = $2`,
    [seconds, archiveId],
  )
}

/** Ends the turns to fetch archives that began seconds ago. Returns how many ended. */
export async function endFetches(db: Queryable, seconds: number): Promise<number> {
  const { rowCount } = await db.query(
    `update mirrored_archive set fetching_until = fetching_until - make_interval(secs => $1)
      where fetching_until is not null`,
    [seconds],
  )
  return rowCount ?? 0
}

/** Lets hours pass since svc has first seen the archives of mirrored packages. */
export async function ageFirstSights(db: Queryable, hours: number): Promise<void> {
  await db.query('update mirrored_archive set first_seen_at = first_seen_at - make_interval(hours => $1)', [
    hours,
  ])
}

/** Lets days pass since the archives of a mirrored package were last downloaded. */
export async function ageUse(db: Queryable, packageName: string, days: number): Promise<void> {
  await db.query(
    `update mirrored_archive a set used_on = current_date - $2::int
       from mirrored_package m where m.id = a.package_id and m.name = $1`,
    [packageName, days],
  )
}

/** Sets the shasum that the upstream has announced for archives: for one, or for those with a reference. */
export async function announceShasum(
  db: Queryable,
  of: { id: string } | { reference: string },
  shasum: string | null,
): Promise<void> {
  await db.query('update mirrored_archive set shasum = $3 where id = $1 or reference = $2', [
    'id' in of ? of.id : null,
    'reference' in of ? of.reference : null,
    shasum,
  ])
}

/** Moves an archive to another URL of its upstream. */
export async function moveArchive(db: Queryable, archiveId: string, url: string): Promise<void> {
  await db.query('update mirrored_archive set url = $2 where id = $1', [archiveId, url])
}

/** Notes that an archive was downloaded. */
export async function noteUse(db: Queryable, archiveId: string): Promise<void> {
  await db.query('select note_archive_uses($1)', [[archiveId]])
}

/** A document of a mirrored package, as svc serves it. */
export interface MirroredDocumentRow {
  name: string
  isDev: boolean
  baseUrl: string
  text: string
  /** In how many hours its versions change by their age alone. Null: never. */
  dueHours: number | null
}

/** Lists the documents that svc serves: of the mirrored packages of a repository, or of those whose names match. */
export async function mirroredDocuments(
  db: Queryable,
  of: { id: string } | RegExp,
): Promise<MirroredDocumentRow[]> {
  const { rows } = await db.query<MirroredDocumentRow>(
    `select m.name, d.is_dev as "isDev", d.base_url as "baseUrl", convert_from(d.plain, 'utf8') as text,
            case when d.due_at <> 'infinity' then extract(epoch from d.due_at - now())::float8 / 3600 end as "dueHours"
       from mirrored_document d join mirrored_package m on m.id = d.package_id
      where m.repository_id = $1 or m.name ~ $2 order by m.name, d.is_dev`,
    of instanceof RegExp ? [null, of.source] : [of.id, null],
  )
  return rows
}

/** Stores an empty document for development versions of the mirrored packages of a repository. */
export async function aMirroredDocument(db: Queryable, repository: { id: string }): Promise<void> {
  await db.query(
    `insert into mirrored_document (package_id, is_dev, last_modified, base_url, due_at, plain, gzip, brotli)
     select id, true, now(), '', 'infinity', '', '', '' from mirrored_package where repository_id = $1`,
    [repository.id],
  )
}

/** Locks the documents of mirrored packages until the end of the transaction: of a repository, or of one package. */
export async function lockMirroredDocuments(tx: Queryable, of: { id: string } | string): Promise<void> {
  await tx.query(
    `select from mirrored_document d join mirrored_package m on m.id = d.package_id
      where m.repository_id = $1 or m.name = $2 and not d.is_dev for update of d`,
    typeof of === 'string' ? [null, of] : [of.id, null],
  )
}

/** Lets hours pass for documents whose versions change by their age: for all, or for those of one package. */
export async function ageDueDocuments(
  db: Queryable,
  { name = null as string | null, hours = 73 } = {},
): Promise<void> {
  await db.query(
    `update mirrored_document d set due_at = due_at - make_interval(hours => $2) from mirrored_package m
      where m.id = d.package_id and ($1::text is null or m.name = $1)`,
    [name, hours],
  )
}

/** Makes a document due since hours. */
export async function makeDue(db: Queryable, name: string, hours: number): Promise<void> {
  await db.query(
    `update mirrored_document d set due_at = now() - make_interval(hours => $2)
       from mirrored_package m where m.id = d.package_id and m.name = $1`,
    [name, hours],
  )
}

/** Lets hours pass since svc has first seen the versions without archives of a mirrored package. */
export async function ageMetapackages(db: Queryable, name: string, hours: number): Promise<void> {
  await db.query(
    `update mirrored_metapackage p set first_seen_at = p.first_seen_at - make_interval(hours => $2)
       from mirrored_package m where m.id = p.package_id and m.name = $1`,
    [name, hours],
  )
}

/** Counts the versions without archives of a mirrored package. */
export async function countMetapackages(db: Queryable, name: string): Promise<number> {
  const { rows } = await db.query(
    `select from mirrored_metapackage p join mirrored_package m on m.id = p.package_id where m.name = $1`,
    [name],
  )
  return rows.length
}

/**
 * Mirrors many packages of an upstream, `many/p1` and so on, with a document and an archive each, as if they had been
 * requested.
 */
export async function manyMirroredPackages(
  db: Queryable,
  repository: { id: string },
  upstreamId: string,
  count: number,
): Promise<void> {
  await db.query(
    `with packages as (
       insert into mirrored_package (repository_id, name, upstream_id, first_seen_at)
       select $1, 'many/p' || i, $2, now() from generate_series(1, $3) i returning id, name
     ), documents as (
       insert into upstream_document (upstream_id, name, is_dev, is_found, checked_at)
       select $2, name, false, true, now() from packages
     ), rendered as (
       insert into mirrored_document (package_id, is_dev, last_modified, base_url, due_at, plain, gzip, brotli)
       select id, false, now(), '', 'infinity', '', '', '' from packages
     ), bytes as (
       insert into archive (sha256, sha1, size)
       select sha256(name::bytea), substr(sha256(name::bytea), 1, 20), 1 from packages
     )
     insert into mirrored_archive (package_id, version_path, reference, version, normalized, type, url)
     select id, '1.0.0', 'a1b2c3', '1.0.0', '1.0.0.0', 'zip', '' from packages`,
    [repository.id, upstreamId, count],
  )
}

/** Adds names that somebody has requested and nobody has approved. */
export async function manyRequestedNames(
  db: Queryable,
  repository: { id: string },
  account: { id: string },
  count: number,
): Promise<void> {
  await db.query(
    `insert into mirrored_package (repository_id, name, requested_at, requester_id)
     select $1, 'requested/p' || i, now(), $2 from generate_series(1, $3::integer) i`,
    [repository.id, account.id, count],
  )
}

/** Marks a mirrored package, without the work that such a change starts. */
export async function markMirroredPackage(
  db: Queryable,
  name: string,
  { isRequested = false, isGone = false, approvedAt = null as Date | null },
): Promise<void> {
  await db.query(
    `update mirrored_package
        set requested_at = case when $2 then now() else requested_at end,
            gone_at = case when $3 then now() else gone_at end, approved_at = coalesce($4, approved_at)
      where name = $1`,
    [name, isRequested, isGone, approvedAt],
  )
}

/** Stores that the document of a package holds versions back, without content of the upstream. */
export async function holdBack(db: Queryable, name: string, versions: string[]): Promise<void> {
  await db.query(
    `insert into mirrored_document (package_id, is_dev, last_modified, base_url, due_at, plain, gzip, brotli, held_back)
     select id, false, now(), 'http://svc.test', 'infinity', '{}', '', '',
            (select jsonb_agg(jsonb_build_object('version', v, 'key', v || '/abcdef1', 'until', now() + interval '1 day'))
               from unnest($2::text[]) v)
       from mirrored_package where name = $1`,
    [name, versions],
  )
}

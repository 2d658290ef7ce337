import type { Queryable } from '../../src/database/database.ts'

type Id = { id: string }

/** A package to add. Without a type it is a library. */
export interface NewPackage {
  name: string
  description?: string
  keywords?: string[]
  type?: string
}

/** Adds packages without versions to a repository, in this order. */
export async function addPackages(
  db: Queryable,
  repository: Id,
  packages: readonly (string | NewPackage)[],
): Promise<void> {
  await db.query(
    `insert into package (repository_id, name, description, keywords, type)
     select $1, name, coalesce(description, ''), coalesce(keywords, '{}'), coalesce(type, 'library')
       from jsonb_to_recordset($2) as p (name text, description text, keywords text[], type text)`,
    [
      repository.id,
      JSON.stringify(packages.map((about) => (typeof about === 'string' ? { name: about } : about))),
    ],
  )
}

/** Gives each package of a repository without a version the version 1.0.0, with the archive of some other version. */
export async function addFirstVersions(
  db: Queryable,
  repository: Id,
  metadata: Record<string, unknown> = {},
): Promise<void> {
  await db.query(
    `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
     select p.id, '1.0.0', '1.0.0', '1.0.0.0', false, v.sort_key, $2, v.sha256
       from package p, (select sort_key, sha256 from package_version limit 1) v
      where p.repository_id = $1 and not exists (select from package_version where package_id = p.id)`,
    [repository.id, JSON.stringify(metadata)],
  )
}

/** Adds copies of a version to its package, with these numbers. */
export async function copyVersion(
  db: Queryable,
  repository: Id,
  { name = 'acme/lib', version = '1.0.0' }: VersionFilter,
  versions: string[],
): Promise<void> {
  await db.query(
    `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
     select v.package_id, n.version, n.version, n.version, false, to_char(n.i, 'FM000'), v.metadata, v.sha256
       from package_version v join package p on p.id = v.package_id, unnest($4::text[]) with ordinality as n (version, i)
      where p.repository_id = $1 and p.name = $2 and v.version = $3`,
    [repository.id, name, version, versions],
  )
}

/** Which versions of a repository: all of them, those of one package, or those with one number. */
export interface VersionFilter {
  name?: string
  version?: string
}

/** Marks versions of a repository as deleted, without the work that a deletion starts. */
export async function markDeleted(
  db: Queryable,
  repository: Id,
  { name, version }: VersionFilter = {},
): Promise<void> {
  await db.query(
    `update package_version v set deleted_at = now() from package p
      where p.id = v.package_id and p.repository_id = $1 and ($2::text is null or p.name = $2)
        and ($3::text is null or v.version = $3)`,
    [repository.id, name ?? null, version ?? null],
  )
}

/** A version, as it is stored. */
export interface VersionRow {
  name: string
  version: string
  sha256: string
  publishedAt: Date
}

/** Lists all versions in the order of their publication, or those of the packages with this name. */
export async function versionRows(db: Queryable, name: string | null = null): Promise<VersionRow[]> {
  const { rows } = await db.query<VersionRow>(
    `select p.name, v.version, encode(v.sha256, 'hex') as sha256, v.published_at as "publishedAt"
       from package_version v join package p on p.id = v.package_id
      where $1::text is null or p.name = $1 order by v.id`,
    [name],
  )
  return rows
}

/** Returns the id of the only package of a repository. */
export async function packageIdOf(db: Queryable, repository: Id): Promise<string> {
  const { rows } = await db.query<Id>('select id from package where repository_id = $1', [repository.id])
  if (rows.length !== 1) throw new Error(`${rows.length} packages`)
  return rows[0]?.id ?? ''
}

/** Locks the latest package with this name until the end of the transaction. */
export async function lockPackage(tx: Queryable, name: string): Promise<void> {
  await tx.query('select from package where name = $1 order by id desc limit 1 for update', [name])
}

/** Marks versions as purged, without the work that a purge starts: those with a hash, or with a number. */
export async function markPurged(
  db: Queryable,
  { sha256, version }: { sha256?: string; version?: string },
): Promise<void> {
  await db.query(
    `update package_version set purged_at = now(), deleted_at = coalesce(deleted_at, now())
      where encode(sha256, 'hex') = $1 or version = $2`,
    [sha256 ?? null, version ?? null],
  )
}

/** Gives all packages their places in the list by downloads, as their first publication does. */
export async function addRanks(db: Queryable): Promise<void> {
  await db.query(
    `insert into package_rank (package_id, repository_id) select id, repository_id from package on conflict do nothing`,
  )
}

/** Writes what the latest versions of all packages require, as a publication does. */
export async function addDependencies(db: Queryable): Promise<void> {
  await db.query('select save_dependencies(id, repository_id) from package')
}

/** Adds versions 1.1.0, 1.2.0 and so on to the package of a repository that has version 0.1.0. Each seventh differs. */
export async function addVersions(db: Queryable, repository: Id, count: number): Promise<void> {
  await db.query(
    `with n as (select i, '1.' || i || '.0' as version, sha256((i || $1::text)::bytea) as hash
                  from generate_series(1, $2::int) i),
          a as (insert into archive (sha256, sha1, size) select hash, substr(hash, 1, 20), 1 from n)
     insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
     select v.package_id, n.version, n.version, n.version || '.0', false, '6' || lpad(i::text, 9, '0'),
            json_build_object('description', case when i % 7 = 0 then 'seventh' else 'other' end), hash
       from n, package_version v join package p on p.id = v.package_id
      where p.repository_id = $1::bigint and v.version = '0.1.0'`,
    [repository.id, count],
  )
}

/** Counts the versions that `work` writes, or writes again. */
export async function countWrittenVersions(db: Queryable, work: () => Promise<unknown>): Promise<number> {
  const { rows } = await db.query<{ id: string }>('select txid_current() as id')
  await work()
  const written = await db.query('select from package_version where xmin::text::bigint > $1', [rows[0]?.id])
  return written.rows.length
}

/** A README, as it is stored. */
export interface ReadmeRow {
  format: string
  content: string
  /** The release of the renderer that has rendered it. */
  rendering: number
}

/** Lists the stored READMEs in the order of their versions: all, or those of a repository. */
export async function readmeRows(db: Queryable, repository: Id | null = null): Promise<ReadmeRow[]> {
  const { rows } = await db.query<ReadmeRow>(
    `select r.format, r.content, r.rendering from version_readme r
       join package_version v on v.id = r.version_id join package p on p.id = v.package_id
      where $1::bigint is null or p.repository_id = $1 order by v.version`,
    [repository?.id ?? null],
  )
  return rows
}

/** Makes all READMEs as if the first release had rendered them. */
export async function outdateReadmes(db: Queryable): Promise<void> {
  await db.query(`update version_readme set rendering = 0, content = '<h3>Old</h3>'`)
}

/** A stored packages.json. */
export interface RootDocumentRow {
  revision: string
  plain: Buffer
}

/** Returns the packages.json that is stored for a repository. */
export async function rootDocument(db: Queryable, repository: Id): Promise<RootDocumentRow | undefined> {
  const { rows } = await db.query<RootDocumentRow>(
    'select revision, plain from root_document where repository_id = $1',
    [repository.id],
  )
  return rows[0]
}

/** Stores another packages.json for a repository, as a process of an earlier release does. */
export async function setRootDocument(db: Queryable, repository: Id, document: object): Promise<void> {
  await db.query(
    `update root_document set plain = convert_to($2, 'UTF8'), revision = nextval('document_revision')
      where repository_id = $1`,
    [repository.id, JSON.stringify(document)],
  )
}

/** Quarantines versions of a repository, without the work that a quarantine starts. */
export async function markQuarantined(
  db: Queryable,
  repository: Id,
  reason: string,
  { name, version }: VersionFilter = {},
): Promise<void> {
  await db.query(
    `update package_version v set quarantined_at = now(), quarantine_reason = $2 from package p
      where p.id = v.package_id and p.repository_id = $1 and ($3::text is null or p.name = $3)
        and ($4::text is null or v.version = $4)`,
    [repository.id, reason, name ?? null, version ?? null],
  )
}

/** Marks a package as abandoned, without the work that this starts. */
export async function markAbandoned(
  db: Queryable,
  repository: Id,
  replacement: string,
  name = 'acme/lib',
): Promise<void> {
  await db.query(
    'update package set abandoned_at = now(), replacement = $3 where repository_id = $1 and name = $2',
    [repository.id, name, replacement],
  )
}

/** Makes the stored metadata of a version larger than any version may be. */
export async function growMetadata(
  db: Queryable,
  repository: Id,
  version: string,
  bytes: number,
): Promise<void> {
  await db.query(
    `update package_version
        set difference = '{"version":"' || $2::text || '","x":"' || repeat('x', $3) || '"}'
      where version = $2 and package_id in (select id from package where repository_id = $1)`,
    [repository.id, version, bytes],
  )
}

/** A package, as it is stored. */
export interface PackageRow {
  name: string
  /** Its name, description and keywords, in the lower case of the database. */
  texts: string
  /** Whether it has a version that lists show. */
  isListed: boolean
}

/** Lists the packages of a repository. */
export async function packageRows(db: Queryable, repository: Id): Promise<PackageRow[]> {
  const { rows } = await db.query<PackageRow>(
    `select name, lower(concat_ws(' ', name, description, array_to_string(keywords, ' '))) as texts,
            exists (select from package_version where package_id = p.id and is_listed) as "isListed"
       from package p where repository_id = $1 order by name`,
    [repository.id],
  )
  return rows
}

/** Publishes an advisory about all packages of a repository, without the work that this starts. */
export async function anAdvisory(
  db: Queryable,
  repository: Id,
  { title, affectedVersions }: { title: string; affectedVersions: string },
): Promise<void> {
  await db.query(
    `insert into advisory (advisory_id, package_id, title, affected_versions)
     select 'SVC-' || id || '-' || (select count(*) from advisory), id, $2, $3 from package where repository_id = $1`,
    [repository.id, title, affectedVersions],
  )
}

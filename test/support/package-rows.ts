import type { Queryable } from '../../src/database/database.ts'

type Id = { id: string }

/** Adds packages without versions to a repository. */
export async function addPackages(db: Queryable, repository: Id, names: string[]): Promise<void> {
  await db.query('insert into package (repository_id, name) select $1, unnest($2::text[])', [
    repository.id,
    names,
  ])
}

/** Which versions of a repository: all of them, of one package, or of one number. */
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
    `update package_version set purged_at = now(), deleted_at = now() where encode(sha256, 'hex') = $1 or version = $2`,
    [sha256 ?? null, version ?? null],
  )
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

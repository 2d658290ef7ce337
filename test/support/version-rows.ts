import type { Queryable } from '../../src/database/database.ts'

type Id = { id: string }

/** Adds copies of each version of a repository: 2.0.1, 2.0.2 and so on. */
export async function copyVersions(db: Queryable, repository: Id, count: number): Promise<void> {
  await db.query(
    `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
     select v.package_id, '2.0.' || i, '2.0.' || i, '2.0.' || i || '.0', false, v.sort_key || i, v.metadata, v.sha256
       from package_version v join package p on p.id = v.package_id, generate_series(1, $2::int) i
      where p.repository_id = $1`,
    [repository.id, count],
  )
}

/** Adds advisories to each package of a repository. */
export async function addAdvisories(db: Queryable, repository: Id, count: number): Promise<void> {
  await db.query(
    `insert into advisory (advisory_id, package_id, title, affected_versions)
     select 'SVC-full-' || n, p.id, 'x', '*' from package p, generate_series(1, $2::int) n
      where p.repository_id = $1`,
    [repository.id, count],
  )
}

/** Stores other metadata of the versions with this number, as an earlier release did: as text, which need not be valid. */
export async function setMetadata(
  db: Queryable,
  version: string,
  { metadata, difference }: { metadata: string; difference: (before: string) => string },
): Promise<void> {
  const { rows } = await db.query<{ before: string | null }>(
    'select difference as before from package_version where version = $1',
    [version],
  )
  await db.query('update package_version set metadata = $2, difference = $3 where version = $1', [
    version,
    metadata,
    rows[0]?.before ? difference(rows[0].before) : null,
  ])
}

/** Lets the former archives of development versions be replaced days ago. */
export async function ageFormerArchives(db: Queryable, days: number): Promise<void> {
  await db.query('update former_archive set replaced_at = now() - make_interval(days => $1)', [days])
}

import type { Queryable } from '../../database/database.ts'

/** Of the given archives those that a version names which is not purged; the hashes in lower-case hex. */
export async function listNamedArchives(
  db: Queryable,
  sha256s: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await db.query<{ sha256: string }>(
    `select encode(a.sha256, 'hex') as sha256
       from unnest($1::text[]) as asked (hex) join archive a on a.sha256 = decode(asked.hex, 'hex')
      where exists (select from package_version v where v.sha256 = a.sha256 and v.purged_at is null)`,
    [sha256s],
  )
  return new Set(rows.map(({ sha256 }) => sha256))
}

/** The archive of the version that was published last, in lower-case hex, purged ones not counted; null without any. */
export async function findNewestArchive(db: Queryable): Promise<string | null> {
  const { rows } = await db.query<{ sha256: string }>(
    `select encode(sha256, 'hex') as sha256
       from package_version where purged_at is null order by id desc limit 1`,
  )
  return rows[0]?.sha256 ?? null
}

/** An archive that versions name, and what it must be. */
export interface NamedArchive {
  sha256: string
  size: number
  /** Such as `acme/php: acme/lib 1.0.0`; at most ten of them. */
  versions: string[]
}

/** The archives of versions that are not purged, by hash, those after a given one; at most a thousand. */
export async function listArchivesAfter(db: Queryable, sha256: string): Promise<NamedArchive[]> {
  const { rows } = await db.query<{ sha256: string; size: string; versions: string[] }>(
    `select encode(a.sha256, 'hex') as sha256, a.size, named.versions
       from archive a,
            lateral (
              select array(
                select g.name || '/' || r.name || ': ' || p.name || ' ' || v.version
                  from package_version v
                  join package p on p.id = v.package_id
                  join repository r on r.id = p.repository_id
                  join repository_group g on g.id = r.group_id
                 where v.sha256 = a.sha256 and v.purged_at is null
                 order by v.id limit 10) as versions
            ) named
      where a.sha256 > decode($1, 'hex') and cardinality(named.versions) > 0
      order by a.sha256
      limit 1000`,
    [sha256],
  )
  return rows.map((row) => ({ ...row, size: Number(row.size) }))
}

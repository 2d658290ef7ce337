import type { Queryable } from '../../database/database.ts'

/** The rules of a mirrored package, and which of its versions are held back, for its page. */
export interface MirrorDescription {
  packageId: string
  upstreamId: string
  allow: string[]
  deny: string[]
  flagged: string | null
  /** The keys of the versions that are held back, and until when, in ISO format. */
  held: { key: string; until: string }[]
}

/** Finds the rules of a mirrored package. Null when its name is not bound to an upstream. */
export async function findMirrorDescription(
  db: Queryable,
  repositoryId: string,
  name: string,
): Promise<MirrorDescription | null> {
  const { rows } = await db.query<MirrorDescription>(
    `select m.id as "packageId", u.id as "upstreamId", u.allow, u.deny, m.summary as flagged,
            (select coalesce(jsonb_agg(jsonb_build_object('key', held ->> 'key', 'until', held ->> 'until')), '[]')
               from mirrored_document d, jsonb_array_elements(d.held_back) as held where d.package_id = m.id) as held
       from mirrored_package m join upstream u on u.id = m.upstream_id
      where m.repository_id = $1 and m.name = $2`,
    [repositoryId, name],
  )
  return rows[0] ?? null
}

/** Reads a stored document of an upstream: gzipped JSON. Null when there is none. */
export async function findStoredContent(
  db: Queryable,
  { upstreamId, name, isDev }: { upstreamId: string; name: string; isDev: boolean },
): Promise<Buffer | null> {
  const { rows } = await db.query<{ content: Buffer | null }>(
    'select content from upstream_document where upstream_id = $1 and name = $2 and is_dev = $3',
    [upstreamId, name, isDev],
  )
  return rows[0]?.content ?? null
}

/** What svc has of an archive of an upstream. */
export interface ArchiveState {
  /** The version and reference in its URL, as in `urlOfArchive`. */
  key: string
  isStored: boolean
  /** In bytes. Null until the first fetch. */
  size: number | null
  /** How it has changed at the upstream. Null without an alarm. */
  alarm: string | null
  firstSeenAt: Date
}

/** Returns what svc has of the archives of a package that have these keys. */
export async function listArchiveStates(
  db: Queryable,
  packageId: string,
  keys: readonly string[],
): Promise<ArchiveState[]> {
  const { rows } = await db.query<ArchiveState>(
    `select w.version_path || '/' || w.reference as key, a.is_stored as "isStored", c.size::float8 as size, a.alarm,
            a.first_seen_at as "firstSeenAt"
       from (select regexp_replace(k, '/[^/]*$', '') as version_path, regexp_replace(k, '^.*/', '') as reference
               from unnest($2::text[]) k) w
      cross join lateral (select * from mirrored_archive
                           where package_id = $1 and version_path = w.version_path and reference = w.reference limit 1) a
       left join archive c on c.sha256 = a.sha256`,
    [packageId, keys],
  )
  return rows
}

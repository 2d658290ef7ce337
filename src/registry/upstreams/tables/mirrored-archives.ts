import type pg from 'pg'
import type { Queryable } from '../../../database/database.ts'
import { lazily } from '../../../database/database.ts'
import type { ArchiveDigest } from '../../tables/versions.ts'
import type { MalwareFlag } from '../offer.ts'
import type { OriginVerdict } from './mirrored-packages.ts'

/** An archive of an upstream, as a URL of this registry names it. */
export interface WantedArchive {
  repositoryId: string
  packageName: string
  /** The version as it is in the URL of this registry. */
  versionPath: string
  reference: string
  type: string
}

/** An archive from a document of an upstream, and the facts that decide whether it is served. */
export interface MirroredArchive {
  id: string
  repositoryId: string
  packageName: string
  version: string
  normalized: string
  type: string
  /** Where the upstream keeps it. */
  url: string
  upstreamName: string
  upstreamUrl: string
  shasum: string | null
  /** In lower-case hex. Null until the first fetch. */
  sha256: string | null
  size: number | null
  /** Whether the archive store keeps the bytes. */
  isStored: boolean
  alarm: string | null
  verdict: OriginVerdict
  deny: string[]
  flags: MalwareFlag[]
  /** Whether its use today is stored already. */
  isUsedToday: boolean
}

const columns = `a.id, m.repository_id as "repositoryId", m.name as "packageName", a.version, a.normalized, a.type, a.url,
  u.name as "upstreamName", u.url as "upstreamUrl", a.shasum, encode(a.sha256, 'hex') as sha256, c.size::float8 as size,
  a.is_stored as "isStored", a.alarm, o.verdict, u.deny,
  m.flags || case when m.summary is null then '[]'::jsonb
    else jsonb_build_array(jsonb_build_object('constraint', m.summary, 'reason', 'flagged as malware')) end as flags,
  coalesce(a.used_on = current_date and a.was_downloaded, false) as "isUsedToday"`
const tables = `mirrored_package m
  join upstream u on u.id = m.upstream_id
  join mirrored_archive a on a.package_id = m.id
  join package_origin(m.repository_id, m.name) o on true
  left join archive c on c.sha256 = a.sha256`

/** Finds an archive. Null when no document has ever named it. */
export async function findMirroredArchive(
  db: Queryable,
  wanted: WantedArchive,
): Promise<MirroredArchive | null> {
  const { rows } = await db.query<MirroredArchive>({
    name: 'find-mirrored-archive',
    text: `select ${columns} from ${tables}
            where m.repository_id = $1 and m.name = $2 and a.version_path = $3 and a.reference = $4 and a.type = $5`,
    values: [wanted.repositoryId, wanted.packageName, wanted.versionPath, wanted.reference, wanted.type],
  })
  return rows[0] ?? null
}

/** Finds the archive of a version by the reference that the upstream gave it, as lock files name it. */
export async function findLockedArchive(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  version: string,
  reference: string | null,
): Promise<MirroredArchive | null> {
  const { rows } = await db.query<MirroredArchive>(
    `select ${columns} from ${tables}
      where m.repository_id = $1 and m.name = $2 and (a.version = $3 or a.version_path = $3)
        and ($4::text is null or a.reference = $4)
      order by a.first_seen_at desc limit 1`,
    [repositoryId, packageName, version, reference],
  )
  return rows[0] ?? null
}

/** A process loses its turn to fetch after this time, unless it extends the turn. */
const turnSeconds = 60

/** Takes the turn to fetch an archive. Only one process gets it. False when it is stored, or being fetched. */
export async function takeFetchTurn(db: Queryable, id: string): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'take-fetch-turn',
    text: `with ${lazily}
           update mirrored_archive set fetching_until = now() + make_interval(secs => ${turnSeconds})
            where id = $1 and not is_stored and exists (select from lazily) and (fetching_until is null or fetching_until <= now())`,
    values: [id],
  })
  return rowCount === 1
}

/** Extends the turn of a running fetch. */
export async function extendFetchTurn(db: Queryable, id: string): Promise<void> {
  await db.query(
    `update mirrored_archive set fetching_until = now() + make_interval(secs => ${turnSeconds}) where id = $1`,
    [id],
  )
}

/** Ends the turn of a fetch. */
export async function endFetchTurn(db: Queryable, id: string): Promise<void> {
  await db.query('update mirrored_archive set fetching_until = null where id = $1', [id])
}

/** Returns whether an archive is stored, and whether a process fetches it at this moment. */
export async function findFetchState(
  db: Queryable,
  id: string,
): Promise<{ isStored: boolean; isFetching: boolean } | null> {
  const { rows } = await db.query<{ isStored: boolean; isFetching: boolean }>({
    name: 'find-fetch-state',
    text: `select is_stored as "isStored", coalesce(fetching_until > now(), false) as "isFetching"
             from mirrored_archive where id = $1`,
    values: [id],
  })
  return rows[0] ?? null
}

/**
 * Stores that an archive is in the store. The first fetch fixes its hash. Returns false for other bytes than then. The
 * row of the archive must exist already.
 */
export async function saveFetched(
  tx: pg.PoolClient,
  id: string,
  { sha256 }: ArchiveDigest,
): Promise<boolean> {
  const { rowCount } = await tx.query({
    name: 'save-fetched-archive',
    text: `update mirrored_archive
              set sha256 = decode($2, 'hex'), is_stored = true, fetched_at = now(), used_on = current_date,
                  fetching_until = null, alarm = null, alarmed_at = null
            where id = $1 and coalesce(sha256, decode($2, 'hex')) = decode($2, 'hex')`,
    values: [id, sha256],
  })
  return rowCount === 1
}

/** Stores why an archive is not served. False when the same reason is stored already. */
export async function saveAlarm(tx: pg.PoolClient, id: string, alarm: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    `update mirrored_archive set alarm = $2, alarmed_at = now() where id = $1 and alarm is distinct from $2`,
    [id, alarm],
  )
  return rowCount === 1
}

/** Stores that an archive was downloaded today. */
export async function noteArchiveUse(db: Queryable, id: string): Promise<void> {
  await db.query({
    name: 'note-archive-use',
    text: `with ${lazily}
           update mirrored_archive set used_on = current_date, was_downloaded = true
            where id = $1 and exists (select from lazily)`,
    values: [id],
  })
}

/** Lets garbage collection remove archives that were not used for the given days. Returns how many. */
export async function releaseUnused(db: Queryable, days: number, limit: number): Promise<number> {
  const { rowCount } = await db.query(
    `update mirrored_archive set is_stored = false
      where id in (select id from mirrored_archive
                    where is_stored and coalesce(used_on, fetched_at::date) < current_date - $1::int
                    limit $2 for update skip locked)`,
    [days, limit],
  )
  return rowCount ?? 0
}

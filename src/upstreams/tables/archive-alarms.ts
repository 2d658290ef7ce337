import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import { isReleased } from './mirrored-archives.ts'
import type { OriginVerdict } from './mirrored-packages.ts'

/**
 * Stores how archives at the upstream differ from the first fetch, or removes that with null. The differing bytes are not
 * served; stored ones still are. Returns how many archives did not have the same reason before.
 */
export async function saveAlarms(
  tx: pg.PoolClient,
  alarms: readonly { id: string; alarm: string | null }[],
): Promise<number> {
  const { rowCount } = await tx.query(
    `update mirrored_archive a set alarm = n.alarm, alarmed_at = case when n.alarm is not null then now() end
       from unnest($1::bigint[], $2::text[]) as n (id, alarm)
      where a.id = n.id and a.alarm is distinct from n.alarm`,
    [alarms.map(({ id }) => id), alarms.map(({ alarm }) => alarm)],
  )
  return rowCount ?? 0
}

/** An archive of a version, and the facts that decide whether its changed bytes can be accepted. */
export interface VersionArchive {
  id: string
  packageId: string
  upstreamId: string
  upstreamName: string
  versionPath: string
  reference: string
  /** Whether a first fetch has fixed its bytes. */
  isFixed: boolean
  /** Whether the archive store still has these bytes. */
  isStored: boolean
  /** How it has changed at the upstream. Null without an alarm. */
  alarm: string | null
  verdict: OriginVerdict
}

/**
 * Lists the archives of a version that documents of upstreams have contained. A development version has one for each
 * commit. The version may be that of the upstream, or the one in the URL of this registry.
 */
export async function listVersionArchives(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  version: string,
): Promise<VersionArchive[]> {
  const { rows } = await db.query<VersionArchive>(
    `select ma.id, m.id as "packageId", u.id as "upstreamId", u.name as "upstreamName", ma.alarm,
            ma.version_path as "versionPath", ma.reference, ma.sha256 is not null as "isFixed", ma.is_stored as "isStored",
            case when ${isReleased} then 'denied' else o.verdict end as verdict
       from mirrored_package m
       join upstream u on u.id = coalesce(m.upstream_id, m.released_from)
       join mirrored_archive ma on ma.package_id = m.id
       join package_origin(m.repository_id, m.name) o on true
      where m.repository_id = $1 and m.name = $2 and $3 in (ma.version, ma.version_path)`,
    [repositoryId, packageName, version],
  )
  return rows
}

/** An archive whose changed bytes were accepted. */
export interface AcceptedArchive {
  version: string
  url: string
  /** The SHA-256 of the bytes before, in lower-case hex. */
  sha256: string
  /** How it had changed. */
  alarm: string
}

/**
 * Forgets the bytes of archives that have an alarm. Each gets a new row without a hash and a new id. A fetch that still
 * runs has the old id, so it neither fixes its bytes nor raises an alarm. Other rows that need the stored bytes keep
 * them; garbage collection removes the bytes otherwise. Returns the archives that had an alarm. The transaction has
 * locked the row of their package, so no document adds such a row at the same time.
 */
export async function replaceAlarmedArchives(
  tx: pg.PoolClient,
  ids: readonly string[],
): Promise<AcceptedArchive[]> {
  const { rows } = await tx.query<AcceptedArchive>(
    `with alarmed as materialized (
       -- The order of save_fetched_archives. A fetch of the right bytes may have ended the alarm meanwhile.
       select id from mirrored_archive where id = any ($1) and alarm is not null order by id for update
     ), removed as (
       delete from mirrored_archive a using alarmed where a.id = alarmed.id returning a.*
     ), added as (
       insert into mirrored_archive (package_id, version_path, reference, version, normalized, type, url, shasum,
                                     first_seen_at, used_on, was_downloaded, upstream_id)
       select package_id, version_path, reference, version, normalized, type, url, shasum,
              first_seen_at, used_on, was_downloaded, upstream_id
         from removed
     )
     select version, url, encode(sha256, 'hex') as sha256, alarm from removed order by id`,
    [ids],
  )
  return rows
}

import type { ArchiveUrl } from '../../archives/archive-url.ts'
import { type ArchiveDigest, collectionLock } from '../../archives/tables/archives.ts'
import type { Queryable } from '../../database/database.ts'
import { byteaArray, forEachCall } from '../../database/shared-statements.ts'
import type { WithAccess } from '../../groups/access.ts'
import { type ForRequest, forEachRequest, oneRow } from '../../groups/for-each-request.ts'
import type { UpstreamRights } from '../client/fetch.ts'
import type { MalwareFlag } from '../documents/read-document.ts'
import { allFlags, type OriginVerdict } from './mirrored-packages.ts'

/** The archive that a URL of a repository names. */
export interface WantedArchive extends ArchiveUrl {
  repositoryId: string
}

/** An archive from a document of an upstream, and the facts that decide whether it is served. */
export interface MirroredArchive {
  id: string
  repositoryId: string
  packageName: string
  version: string
  normalized: string
  type: string
  /** The URL of the archive at the upstream. */
  url: string
  upstreamName: string
  upstreamUrl: string
  /** What a request for the URL may do. */
  rights: UpstreamRights
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
  /** Whether today's use of the archive is already stored. */
  isUsedToday: boolean
}

/**
 * SQL: the rights that both the upstream of the package and the one that named the URL have, as `UpstreamRights`. They
 * differ after the name was released. Rows of earlier releases do not have the second.
 */
const rights = `(select jsonb_build_object('url', u.url, 'credentialHosts', u.credential_hosts,
    'usesCredentials', u.uses_credentials and coalesce(f.uses_credentials, true),
    'reachesPrivateHosts', u.reaches_private_hosts and coalesce(f.reaches_private_hosts, true))
  from (values (true)) as one (is_one) left join upstream f on f.id = ma.upstream_id)`

/**
 * SQL: whether only an upstream that has released the name named the archive, and not the one to which the name is bound.
 * An upstream that was added again with its URL is the same one. `m` is the package, `ma` the archive, and `u` the upstream
 * to which the name is bound, or which has released it.
 */
export const isReleased = `(m.upstream_id is null or m.released_from is not null and exists (
  select from upstream f where f.id = coalesce(ma.upstream_id, m.released_from) and f.url <> u.url))`

/** SQL: the patterns that deny an archive: also those of the upstream that has released it. */
const deny = `u.deny || coalesce(
  (select f.deny from upstream f where ${isReleased} and f.id = coalesce(ma.upstream_id, m.released_from)), '{}')`

const columns = `ma.id::text, m.repository_id::text as "repositoryId", m.name as "packageName", ma.version, ma.normalized, ma.type, ma.url,
  u.name as "upstreamName", u.url as "upstreamUrl", ${rights} as rights, ma.shasum, encode(ma.sha256, 'hex') as sha256, c.size::float8 as size,
  ma.is_stored as "isStored", ma.alarm, case when ${isReleased} then 'denied' else o.verdict end as verdict, ${deny} as deny,
  case when ${isReleased} then m.released_flags else ${allFlags} end as flags,
  coalesce(ma.used_on = current_date and ma.was_downloaded, false) as "isUsedToday"`

/**
 * SQL: the tables of `columns`, with one archive for each package. `condition` and `order` choose the archive. Because of
 * the limit, PostgreSQL uses the index of the archives. It may have made the plan when the table was empty.
 * An archive of a released name is checked by the last rules of the upstream that released it, and is not fetched.
 */
function tablesOf(condition: string, order = ''): string {
  return `mirrored_package m
  join upstream u on u.id = coalesce(m.upstream_id, m.released_from)
 cross join lateral (select * from mirrored_archive ma
                      where ma.package_id = m.id and ${condition} ${order} limit 1) ma
  join package_origin(m.repository_id, m.name) o on true
  left join archive c on c.sha256 = ma.sha256`
}

/**
 * SQL: reads a `MirroredArchive` as JSON for the package name, version path, reference and type of the call, in the
 * repository of the expression.
 */
function selectMirroredArchive(repositoryId: string): string {
  const isWanted = 'ma.version_path = call.version and ma.reference = call.reference and ma.type = call.type'
  return `select to_jsonb(x) from (
            select ${columns} from ${tablesOf(isWanted)}
             where m.repository_id = ${repositoryId} and m.name = call.package_name) x`
}

const selectMirroredArchives = forEachCall(
  { repository_id: 'bigint', package_name: 'text', version: 'text', reference: 'text', type: 'text' },
  `select (${selectMirroredArchive('call.repository_id')}) as archive`,
)

/** Finds archives, in the order of the calls. Null for an archive that no document has ever contained. */
export async function findMirroredArchives(
  db: Queryable,
  wanted: readonly WantedArchive[],
): Promise<(MirroredArchive | null)[]> {
  const { rows } = await db.query<{ archive: MirroredArchive | null }>({
    name: 'find-mirrored-archives',
    text: selectMirroredArchives,
    values: [
      wanted.map(({ repositoryId }) => repositoryId),
      wanted.map(({ packageName }) => packageName),
      wanted.map(({ version }) => version),
      wanted.map(({ reference }) => reference),
      wanted.map(({ type }) => type),
    ],
  })
  return rows.map(({ archive }) => archive)
}

/** Finds the archive of a version by the upstream's reference, which lock files contain. */
export async function findLockedArchive(
  db: Queryable,
  repositoryId: string,
  packageName: string,
  version: string,
  reference: string | null,
): Promise<MirroredArchive | null> {
  const isWanted = '$3 in (ma.version, ma.version_path) and ($4::text is null or ma.reference = $4)'
  const { rows } = await db.query<MirroredArchive>(
    `select ${columns} from ${tablesOf(isWanted, 'order by ma.first_seen_at desc')}
      where m.repository_id = $1 and m.name = $2`,
    [repositoryId, packageName, version, reference],
  )
  return rows[0] ?? null
}

/** Lists the mirrored archives that need the file with this hash: one for each package of each repository. */
export async function listArchivesWithHash(db: Queryable, sha256: string): Promise<MirroredArchive[]> {
  const hasHash = `ma.sha256 = decode($1, 'hex') and ma.is_stored`
  const { rows } = await db.query<MirroredArchive>(
    `select ${columns} from ${tablesOf(hasHash)}
      where m.id in (select ma.package_id from mirrored_archive ma where ${hasHash})
      order by ma.id`,
    [sha256],
  )
  return rows
}

/** The archive of an upstream, with the access to the repository. */
export interface FoundMirroredDownload extends WithAccess {
  /** Null when no document of an upstream has contained the archive. */
  mirrored: MirroredArchive | null
}

/** Finds archives of upstreams. Returns one result for each wanted archive, in their order. */
export function listMirroredDownloads(
  db: Queryable,
  wanted: readonly ForRequest<ArchiveUrl>[],
): Promise<FoundMirroredDownload[]> {
  return queryMirroredDownloads(db, {
    targets: wanted.map(({ target }) => target),
    columns: [
      wanted.map(({ packageName }) => packageName),
      wanted.map(({ version }) => version),
      wanted.map(({ reference }) => reference),
      wanted.map(({ type }) => type),
    ],
  })
}

const queryMirroredDownloads = forEachRequest<FoundMirroredDownload>({
  name: 'list-mirrored-downloads',
  columns: { package_name: 'text', version: 'text', reference: 'text', type: 'text' },
  query: `select (${selectMirroredArchive('a.repository_id')}) as mirrored from ${oneRow}`,
})

/** A process loses its turn to fetch after this time, unless it extends its turn. */
const turnSeconds = 60

/**
 * Takes the turns to fetch archives. Only one process gets each turn. Returns a value for each id, in their order. The
 * value is false for an archive that is stored or is being fetched.
 */
export async function takeFetchTurns(db: Queryable, ids: readonly string[]): Promise<boolean[]> {
  const { rows } = await db.query<{ id: string }>({
    name: 'take-fetch-turns',
    text: `select id from take_fetch_turns($1, now() + make_interval(secs => ${turnSeconds})) as id`,
    values: [ids],
  })
  const taken = new Set(rows.map(({ id }) => id))
  return ids.map((id) => taken.delete(id))
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

/** Returns whether an archive is stored. Null when there is no such archive any more. */
export async function findFetchState(db: Queryable, id: string): Promise<{ isStored: boolean } | null> {
  const { rows } = await db.query<{ isStored: boolean }>({
    name: 'find-fetch-state',
    text: 'select is_stored as "isStored" from mirrored_archive where id = $1',
    values: [id],
  })
  return rows[0] ?? null
}

/** An archive that was fetched and is in the store. */
export interface FetchedArchive extends ArchiveDigest {
  /** The id of the mirrored archive. */
  id: string
  /** Whether a client waits for it. False for a prefetch. */
  isDownload: boolean
}

/**
 * Stores that archives are in the store. The first fetch of an archive sets its hash. Returns a value for each archive,
 * in their order. The value is false when the bytes differ from the first fetch, or from a shasum that the upstream has
 * announced since the fetch began. `insertArchive` describes the lock.
 */
export async function saveFetchedArchives(
  db: Queryable,
  fetched: readonly FetchedArchive[],
): Promise<boolean[]> {
  const { rows } = await db.query<{ isSaved: boolean }>({
    name: 'save-fetched-archives',
    text: 'select "isSaved" from save_fetched_archives($1, $2, $3, $4, $5, $6) as "isSaved"',
    values: [
      collectionLock,
      fetched.map(({ id }) => id),
      byteaArray(fetched.map(({ sha256 }) => Buffer.from(sha256, 'hex'))),
      byteaArray(fetched.map(({ sha1 }) => Buffer.from(sha1, 'hex'))),
      fetched.map(({ size }) => size),
      fetched.map(({ isDownload }) => isDownload),
    ],
  })
  return rows.map(({ isSaved }) => isSaved)
}

/** Stores that archives were downloaded today. */
export async function noteArchiveUses(db: Queryable, ids: readonly string[]): Promise<void> {
  await db.query({
    name: 'note-archive-uses',
    text: 'select note_archive_uses($1)',
    values: [ids],
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

import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import { retriedTransaction } from '../database/retried-transaction.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvents } from '../events/events.ts'
import type { UpstreamChange } from './configure.ts'
import { urlOfArchive } from './documents/packed-content.ts'
import { keepOffered } from './documents/run-task.ts'
import { checkContextOf, checkInTurn, type MirrorContext } from './mirror.ts'
import { renderMirror } from './store-documents.ts'
import { isReleased } from './tables/mirrored-archives.ts'
import type { OriginVerdict } from './tables/mirrored-packages.ts'
import { findMirrorContent, lockMirror } from './tables/rendered-mirrors.ts'
import { markStale } from './tables/upstream-documents.ts'

/** A version of a mirrored package. */
export interface MirroredVersion {
  packageName: string
  version: string
}

/** An archive whose bytes were forgotten. */
export interface ForgottenArchive {
  version: string
  url: string
  /** The SHA-256 of the bytes, in lower-case hex. */
  sha256: string
  /** How it had changed. Null when svc saw no change. */
  alarm: string | null
}

/**
 * Forgets the stored bytes of a version's archives, and their alarms (UPSTREAMS 10). The next request fetches what the
 * upstream serves. It must match the shasum that the upstream announces, and is fixed then. The upstream's documents are
 * requested first, because the shasum may have changed since the last check. Throws errcode 5 for an unknown version, 9
 * when svc has no bytes of it or no upstream offers it, and 14 when the upstream fails. The stored bytes are still served
 * then.
 */
export async function forgetArchives(
  context: MirrorContext,
  { repositoryId, by }: UpstreamChange,
  wanted: MirroredVersion,
): Promise<ForgottenArchive[]> {
  const { config, db } = context
  const { packageName, version } = wanted
  const [first] = replaceable(await listVersionArchives(db, repositoryId, packageName, version), wanted)
  const documents = await checkDocuments(context, first.upstreamId, packageName)
  return retriedTransaction(db, async (tx) => {
    await lockMirror(tx, first.packageId)
    // The rules and the archives may have changed meanwhile.
    const known = replaceable(await listVersionArchives(tx, repositoryId, packageName, version), wanted)
    const offered = await listOffered(tx, first.packageId, documents, known.map(urlOfArchive))
    // Nothing could replace stored bytes that the upstream no longer offers, and lock files may need them. A lock file
    // also needs the hash of an archive that was not seen to change.
    const archives = known.filter(
      (archive) => offered.has(urlOfArchive(archive)) || (!archive.isStored && archive.alarm !== null),
    )
    if (archives.length === 0) {
      throw refusal(
        `the upstream no longer offers this archive of ${packageName}: svc still serves the stored bytes`,
      )
    }
    const forgotten = await replaceArchives(
      tx,
      archives.map(({ id }) => id),
    )
    // The new rows get URL and shasum from the documents, and the documents announce this shasum again.
    for (const isDev of [false, true]) await renderMirror(tx, first.packageId, isDev, config.baseUrl)
    const about = { repositoryId, packageName, action: 'forget-archive' as const }
    await insertEvents(
      tx,
      by,
      forgotten.map(({ version: its, alarm, ...archive }) => {
        const details = { upstream: first.upstreamName, ...archive, ...(alarm !== null && { alarm }) }
        return { ...about, version: its, details }
      }),
    )
    return forgotten
  })
}

/** An archive of a version, and the facts that decide whether its bytes can be forgotten. */
interface VersionArchive {
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
async function listVersionArchives(
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

/** Returns the archives whose bytes are fixed, and that svc could fetch again. There is at least one. */
function replaceable(
  archives: readonly VersionArchive[],
  { packageName, version }: MirroredVersion,
): [VersionArchive, ...VersionArchive[]] {
  const what = `${packageName} ${version}`
  if (archives.length === 0) {
    throw new Refusal(errcode.notFound, `no upstream has offered an archive of ${what}`)
  }
  const fixed = archives.filter(({ isFixed }) => isFixed)
  if (fixed.length === 0) {
    const isWrong = archives.some(({ alarm }) => alarm !== null)
    throw refusal(
      `svc has no bytes of ${what} to forget: ${isWrong ? 'its upstream must correct the checksum' : 'the next request fetches what the upstream serves'}`,
    )
  }
  const [first, ...others] = fixed.filter(({ verdict }) => verdict === 'upstream')
  if (first) return [first, ...others]
  throw refusal(`no upstream may offer ${packageName} now`)
}

/** Requests the documents of a package that are stored. Returns `isDev` of those that the upstream still has. */
async function checkDocuments(
  context: MirrorContext,
  upstreamId: string,
  packageName: string,
): Promise<boolean[]> {
  const checks = checkContextOf(context)
  const found: boolean[] = []
  for (const isDev of [false, true]) {
    if ((await markStale(context.db, upstreamId, [{ packageName, isDev }])) === 0) continue
    const { outcome } = await checkInTurn(checks, { upstreamId, packageName, isDev })
    if (outcome === 'failed' || outcome === 'busy') {
      throw new Refusal(errcode.unavailable, `the upstream of ${packageName} fails: try again later`)
    }
    if (outcome === 'found') found.push(isDev)
  }
  return found
}

/** Returns which of the archives are in documents of a package. The transaction has locked the row of the package. */
async function listOffered(
  tx: pg.PoolClient,
  packageId: string,
  documents: readonly boolean[],
  archives: readonly string[],
): Promise<ReadonlySet<string>> {
  const offered = new Set<string>()
  for (const isDev of documents) {
    const packed = await findMirrorContent(tx, packageId, isDev)
    const found = packed ? await keepOffered({ owner: packageId, isUrgent: true }, packed, archives) : []
    for (const archive of found) offered.add(archive)
  }
  return offered
}

/**
 * Forgets the bytes of archives. Each gets a new row without a hash and a new id. A fetch that still runs has the old id,
 * so it neither fixes its bytes nor raises an alarm. Other rows that need the stored bytes keep them; garbage collection
 * removes the bytes otherwise. Returns the archives that had bytes. The transaction has locked the row of their package,
 * so no document adds such a row at the same time.
 */
export async function replaceArchives(
  tx: pg.PoolClient,
  ids: readonly string[],
): Promise<ForgottenArchive[]> {
  const { rows } = await tx.query<ForgottenArchive>(
    `with fixed as materialized (
       -- The order of save_fetched_archives.
       select id from mirrored_archive where id = any ($1) and sha256 is not null order by id for update
     ), removed as (
       delete from mirrored_archive a using fixed where a.id = fixed.id returning a.*
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

function refusal(why: string): Refusal {
  return new Refusal(errcode.failedPrecondition, why)
}

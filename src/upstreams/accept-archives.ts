import type pg from 'pg'
import { retriedTransaction } from '../database/retried-transaction.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { insertEvents } from '../events/events.ts'
import type { UpstreamChange } from './configure.ts'
import { urlOfArchive } from './documents/packed-content.ts'
import { keepOffered } from './documents/run-task.ts'
import { checkContextOf, checkInTurn, type MirrorContext } from './mirror.ts'
import { renderMirror } from './store-documents.ts'
import {
  type AcceptedArchive,
  listVersionArchives,
  replaceAlarmedArchives,
  type VersionArchive,
} from './tables/archive-alarms.ts'
import { findMirrorContent, lockMirror } from './tables/rendered-mirrors.ts'
import { markStale } from './tables/upstream-documents.ts'

/** A version of a mirrored package whose archive has changed at the upstream. */
export interface AlarmedVersion {
  packageName: string
  version: string
}

/**
 * Accepts that the archives of a version have changed at the upstream (UPSTREAMS 10). svc forgets their fixed bytes,
 * and the alarm. The next request fetches what the upstream serves. It must match the shasum that the upstream
 * announces, and is fixed then. The upstream's documents are requested first, because the shasum may have changed since
 * the last check. Throws errcode 5 for an unknown version, 9 when no archive of it has an alarm or no upstream offers
 * it, and 14 when the upstream fails. The stored bytes are still served then.
 */
export async function acceptArchives(
  context: MirrorContext,
  { repositoryId, by }: UpstreamChange,
  changed: AlarmedVersion,
): Promise<AcceptedArchive[]> {
  const { config, db } = context
  const { packageName, version } = changed
  const [first] = acceptable(await listVersionArchives(db, repositoryId, packageName, version), changed)
  const documents = await checkDocuments(context, first.upstreamId, packageName)
  return retriedTransaction(db, async (tx) => {
    await lockMirror(tx, first.packageId)
    // The rules and the alarm may have changed meanwhile.
    const alarmed = acceptable(await listVersionArchives(tx, repositoryId, packageName, version), changed)
    const offered = await listOffered(tx, first.packageId, documents, alarmed.map(urlOfArchive))
    // Nothing could replace stored bytes that the upstream no longer offers, and lock files may need them.
    const archives = alarmed.filter((archive) => !archive.isStored || offered.has(urlOfArchive(archive)))
    if (archives.length === 0) {
      throw refusal(
        `the upstream no longer offers this archive of ${packageName}: svc still serves the stored bytes`,
      )
    }
    const accepted = await replaceAlarmedArchives(
      tx,
      archives.map(({ id }) => id),
    )
    if (accepted.length === 0) throw withoutAlarm(changed)
    // The new rows get URL and shasum from the documents, and the documents announce this shasum again.
    for (const isDev of [false, true]) await renderMirror(tx, first.packageId, isDev, config.baseUrl)
    const about = { repositoryId, packageName, action: 'accept-archive' as const }
    await insertEvents(
      tx,
      by,
      accepted.map(({ version: its, ...archive }) => {
        const details = { upstream: first.upstreamName, ...archive }
        return { ...about, version: its, details }
      }),
    )
    return accepted
  })
}

/** Returns the archives that can be accepted. There is at least one. */
function acceptable(
  archives: readonly VersionArchive[],
  changed: AlarmedVersion,
): [VersionArchive, ...VersionArchive[]] {
  const { packageName, version } = changed
  if (archives.length === 0) {
    const what = `${packageName} ${version}`
    throw new Refusal(errcode.notFound, `no upstream has offered an archive of ${what}`)
  }
  const alarmed = archives.filter(({ alarm }) => alarm !== null)
  if (alarmed.length === 0) throw withoutAlarm(changed)
  // The next request fetches the archive again anyway.
  const fixed = alarmed.filter(({ isFixed }) => isFixed)
  if (fixed.length === 0) {
    throw refusal(
      `svc has no bytes of ${packageName} ${version} to replace: its upstream must correct the checksum`,
    )
  }
  // svc could not fetch new bytes.
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

function refusal(why: string): Refusal {
  return new Refusal(errcode.failedPrecondition, why)
}

function withoutAlarm({ packageName, version }: AlarmedVersion): Refusal {
  const what = `the archive of ${packageName} ${version} has no alarm`
  return refusal(`${what}: no changed bytes wait for acceptance`)
}

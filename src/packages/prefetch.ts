import type pg from 'pg'
import * as z from 'zod'
import { normalizeVersion } from '../composer/composer-version.ts'
import { toLowerAscii } from '../composer/package-name.ts'
import { operator } from '../domain/principal.ts'
import { Refusal } from '../domain/refusal.ts'
import type { ArchiveMirror } from '../upstreams/archive-mirror.ts'
import type { Mirror } from '../upstreams/mirror.ts'
import { findLockedArchive } from '../upstreams/tables/mirrored-archives.ts'
import { findOrigin } from '../upstreams/tables/mirrored-packages.ts'
import { findTakenVersion } from './tables/versions.ts'

const LockedPackage = z.object({
  name: z.string(),
  version: z.string(),
  dist: z.object({ type: z.string().nullish(), reference: z.string().nullish() }).nullish(),
})
const LockFile = z.object({
  packages: z.array(LockedPackage).default([]),
  'packages-dev': z.array(LockedPackage).nullish(),
})
type LockedPackage = z.output<typeof LockedPackage>

/** The result for a package of a lock file. */
export interface Prefetched {
  name: string
  version: string
  /**
   * `own` is a version that this repository publishes, or a package of another repository of its group. `skipped` has no
   * archive that a registry could serve.
   */
  outcome: 'fetched' | 'known' | 'own' | 'skipped' | 'failed'
  reason: string | null
}

/** The parts that a prefetch needs. */
interface PrefetchContext {
  db: pg.Pool
  mirror: Mirror
  archiveMirror: ArchiveMirror
}

/**
 * Fetches every archive of a lock file. It uses the documents of this repository, because the lock file may have other
 * URLs. Returns a result for each package. When a package fails, the others continue.
 */
export async function prefetchLock(
  context: PrefetchContext,
  repositoryId: string,
  lockText: string,
): Promise<Prefetched[]> {
  const done: Prefetched[] = []
  for (const locked of readLock(lockText)) {
    const about = { name: toLowerAscii(locked.name), version: locked.version }
    try {
      done.push({ ...about, ...(await prefetch(context, repositoryId, locked)) })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      done.push({ ...about, outcome: 'failed', reason: error.warning ?? error.errmsg })
    }
  }
  return done
}

async function prefetch(
  { db, mirror, archiveMirror }: PrefetchContext,
  repositoryId: string,
  { name, version, dist }: LockedPackage,
): Promise<Pick<Prefetched, 'outcome' | 'reason'>> {
  // The name of a folder's package may be private. No upstream may see it.
  if (dist?.type === 'path') return { outcome: 'skipped', reason: 'it is a folder of the project' }
  const packageName = toLowerAscii(name)
  const documents = []
  for (const isDev of [false, true])
    documents.push(await mirror.findDocument({ repositoryId, packageName, isDev }, operator))
  const { verdict, isInGroup } = await findOrigin(db, repositoryId, packageName)
  const reference = /^[0-9a-f]{7,64}$/i.test(dist?.reference ?? '')
    ? (dist?.reference ?? '').toLowerCase()
    : null
  const archive = await findLockedArchive(db, repositoryId, packageName, version, reference)
  if (verdict === 'own') {
    // The repository publishes the package now. Archives that were stored before stay for lock files.
    const kept = reference !== null && archive?.isStored ? archive : null
    if (kept === null) return ownOutcome(db, repositoryId, packageName, version)
    return { outcome: await archiveMirror.store(kept), reason: null }
  }
  if (archive) return { outcome: await archiveMirror.store(archive), reason: null }
  if (verdict === 'claimed' && isInGroup)
    return { outcome: 'own', reason: 'another repository of the group has it' }
  if (!dist) return { outcome: 'skipped', reason: 'the lock file names no archive of it' }
  if (verdict !== 'upstream') return { outcome: 'failed', reason: reasons[verdict] }
  const found = documents.filter((document) => document !== null)
  if (found.length === 0) return { outcome: 'failed', reason: 'no upstream has it' }
  const warning = found.find((document) => document.warning !== null)?.warning
  return { outcome: 'failed', reason: warning ?? 'the upstream has no such version with this reference' }
}

/** The reasons why no upstream offers a package. */
const reasons = {
  claimed: 'its vendor belongs to the group, and this repository does not have it',
  denied: 'no upstream may offer it',
  unapproved: 'it is not approved',
  contested: 'two upstreams have it, and no admin has decided which of them serves it',
}

async function ownOutcome(
  db: pg.Pool,
  repositoryId: string,
  packageName: string,
  version: string,
): Promise<Pick<Prefetched, 'outcome' | 'reason'>> {
  const normalized = normalizeVersion(version)
  const taken = normalized === null ? null : await findTakenVersion(db, repositoryId, packageName, normalized)
  if (taken) return { outcome: 'own', reason: 'this repository publishes it' }
  return { outcome: 'failed', reason: 'this repository has the package, but not this version' }
}

function readLock(text: string): LockedPackage[] {
  let content: unknown
  try {
    content = JSON.parse(text)
  } catch {
    throw new Error('The lock file is not JSON.')
  }
  const read = LockFile.safeParse(content)
  if (!read.success) throw new Error('The file is not a composer.lock.')
  return [...read.data.packages, ...(read.data['packages-dev'] ?? [])]
}

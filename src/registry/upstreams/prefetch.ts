import type pg from 'pg'
import { z } from 'zod'
import { RegistryError } from '../errors.ts'
import { toLowerAscii } from '../manifest/package-name.ts'
import { commandLine } from '../tables/events.ts'
import type { ArchiveMirror } from './archive-mirror.ts'
import type { Mirror } from './mirror.ts'
import { findLockedArchive } from './tables/mirrored-archives.ts'

const LockedPackage = z.object({
  name: z.string(),
  version: z.string(),
  dist: z.object({ reference: z.string().nullish() }).nullish(),
})
const LockFile = z.object({
  packages: z.array(LockedPackage).default([]),
  'packages-dev': z.array(LockedPackage).nullish(),
})

/** The result for a package of a lock file. */
export interface Prefetched {
  name: string
  version: string
  outcome: 'fetched' | 'known' | 'own' | 'failed'
  reason: string | null
}

/**
 * Fetches every archive of a lock file. It uses the documents of this repository, because the lock file may have other
 * URLs. Returns a result for each package. When a package fails, the others continue.
 */
export async function prefetchLock(
  { db, mirror, archiveMirror }: { db: pg.Pool; mirror: Mirror; archiveMirror: ArchiveMirror },
  repositoryId: string,
  lockText: string,
): Promise<Prefetched[]> {
  const done: Prefetched[] = []
  for (const { name, version, dist } of readLock(lockText)) {
    const packageName = toLowerAscii(name)
    const about = { name: packageName, version }
    try {
      for (const isDev of [false, true])
        await mirror.findDocument({ repositoryId, packageName, isDev }, commandLine)
      const reference = /^[0-9a-f]{7,64}$/i.test(dist?.reference ?? '')
        ? (dist?.reference ?? '').toLowerCase()
        : null
      const archive = await findLockedArchive(db, repositoryId, packageName, version, reference)
      if (!archive) done.push({ ...about, outcome: 'own', reason: 'no upstream offers it' })
      else done.push({ ...about, outcome: await archiveMirror.store(archive), reason: null })
    } catch (error) {
      if (!(error instanceof RegistryError)) throw error
      done.push({ ...about, outcome: 'failed', reason: error.warning ?? error.errmsg })
    }
  }
  return done
}

function readLock(text: string): z.output<typeof LockedPackage>[] {
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

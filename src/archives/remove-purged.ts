import type pg from 'pg'
import type { Job } from '../jobs/job.ts'
import type { ArchiveStore } from './archive-store.ts'
import { lockedSize, removeFiles, removingFiles } from './remove-files.ts'
import { openOwnStore } from './store-owner.ts'
import { forgetUnneededArchives, listPurgedArchives } from './tables/stored-archives.ts'

/** A time after every last use of a file. */
const always = new Date(8.64e15)

/**
 * Removes the files of the purged versions of a package, about a second after the purge. It is a job, so that a bucket that
 * does not respond, a running backup or a crash only delays it.
 */
export const removePurgedJob: Job<{ packageId: string }> = {
  name: 'remove-purged-archives',
  singleton: ({ packageId }) => packageId,
  needsClaim: true,
  // A backup may run for hours, and an upload that crashed counts for a day. A garbage collection comes after that.
  retry: { attempts: 16, delaySeconds: 10 },
  async run({ db, config, log }, { packageId }, signal) {
    const removed = await removePurgedArchives(db, await openOwnStore(db, config), packageId, signal)
    if (removed > 0) log.info({ archives: removed }, 'archives of purged versions were removed')
  },
}

/**
 * Removes the files of a package's purged versions that nothing else needs: no other version, no upload that waits in a
 * browser, and no upload of the same bytes that is running. Returns how many. Throws when such an upload is running, and
 * while a backup runs.
 */
export async function removePurgedArchives(
  db: pg.Pool,
  store: ArchiveStore,
  packageId: string,
  signal?: AbortSignal,
): Promise<number> {
  let removed = 0
  let kept = 0
  let batch = await listPurgedArchives(db, packageId, '', lockedSize)
  while (batch.length > 0) {
    signal?.throwIfAborted()
    const outcome = await removeUnneeded(db, store, batch)
    removed += outcome.removed
    kept += outcome.kept
    batch = await listPurgedArchives(db, packageId, batch.at(-1) as string, lockedSize)
  }
  if (kept > 0) throw new Error(`${kept} archives of purged versions are being uploaded again`)
  return removed
}

/**
 * The rows of the archives decide. An upload adds itself to the row before it looks for the file, so it waits for the
 * transaction here, and stores the file again. If the row shows an upload, the file stays.
 */
async function removeUnneeded(
  db: pg.Pool,
  store: ArchiveStore,
  sha256s: readonly string[],
): Promise<{ removed: number; kept: number }> {
  return removingFiles(db, store, async (tx) => {
    const { forgotten, kept } = await forgetUnneededArchives(tx, sha256s)
    await removeFiles(store, forgotten, always)
    return { removed: forgotten.length, kept }
  })
}

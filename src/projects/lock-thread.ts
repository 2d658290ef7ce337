import { serveThread } from '../domain/threads.ts'
import { LockFileError, type LockFilePackage, readLockFile } from './lock-file.ts'
import { renderSbom, type SbomSubject } from './sbom.ts'

/** A task for the thread: a lock file to read, or one to describe. */
export type LockTask = { lock: Uint8Array } | { sbom: SbomSubject }

/** What became of a text: the packages of the lock file, or what is wrong with it. */
export type LockReading = { packages: LockFilePackage[] } | { problem: string }

serveThread((task: LockTask): LockReading | string =>
  'lock' in task ? readLock(task.lock) : renderSbom(task.sbom),
)

function readLock(bytes: Uint8Array): LockReading {
  try {
    return { packages: readLockFile(bytes) }
  } catch (error) {
    if (error instanceof LockFileError) return { problem: error.message }
    throw error
  }
}

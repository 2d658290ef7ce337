import { open } from 'node:fs/promises'
import { networkOf } from '../domain/client-ip.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { openTurns } from '../domain/turns.ts'
import type { PackedCheck } from './archive-tasks.ts'
import { runInArchiveThread } from './archive-threads.ts'
import { treeOf } from './archive-tree.ts'
import { type CheckedZip, checkZip, defaultArchiveLimits } from './check-zip.ts'
import { findDirectory } from './zip-directory.ts'

/** Archives with more entries are checked in a thread: 1,000 of them take about 50 ms. */
const maxEntriesHere = 1000
const maxDirectoryBytesHere = 256 * 1024

/**
 * How many archives are checked at once, and wait. More checks would compete for the same threads, and those of small
 * archives block the event loop for slices of time.
 */
const limits = { atOnce: 3, atOnceOfOwner: 2, waiting: 500, waitingOfOwner: 100 }

/**
 * Opens the turns of checks. Returns a function that checks a received archive from a client IP. It throws errcode 8 with
 * Retry-After when too many archives of the network wait, and errcode 14 when too many wait in all.
 */
export function openChecks(): (ip: string, path: string) => Promise<CheckedZip> {
  const inTurn = openTurns(limits, (whose) =>
    whose === 'owner'
      ? new Refusal(errcode.resourceExhausted, 'too many uploads at once', { retryAfterSeconds: 5 })
      : new Refusal(errcode.unavailable, 'too many uploads at once: try again later'),
  )
  return (ip, path) => inTurn(networkOf(ip), () => checkUpload(path))
}

/** Checks a received archive, as `checkZip` does. One with many files is checked in a thread. */
export async function checkUpload(path: string): Promise<CheckedZip> {
  if (!(await isLong(path))) return checkZip(path)
  const task = { name: 'check', path, limits: defaultArchiveLimits } as const
  const { manifest, ...zip } = await runInArchiveThread<PackedCheck>(task)
  const { buffer, byteOffset, byteLength } = manifest
  return { ...zip, manifest: Buffer.from(buffer, byteOffset, byteLength), tree: treeOf(zip.packedTree) }
}

async function isLong(path: string): Promise<boolean> {
  const file = await open(path, 'r')
  try {
    const { entryCount, start, end } = await findDirectory(file)
    return entryCount > maxEntriesHere || end - start > maxDirectoryBytesHere
  } finally {
    await file.close()
  }
}

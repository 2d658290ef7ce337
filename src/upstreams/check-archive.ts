import { open } from 'node:fs/promises'
import type { ReceivedArchive } from '../archives/archive-store.ts'
import { findDirectory } from '../archives/zip-directory.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { startBytes, startsLikeArchive } from './archive-start.ts'
import { UpstreamError } from './client/upstream-error.ts'
import { matchesVersion } from './documents/patterns.ts'
import { satisfies } from './documents/satisfies.ts'
import type { MirroredArchive } from './tables/mirrored-archives.ts'

/** Throws errcode 9 with 410 for a version that is denied, or flagged as malware, even for lock files (UPSTREAMS 13). */
export function refuseDenied({ packageName, version, normalized, deny, flags }: MirroredArchive): void {
  const flag = flags.find(({ constraint }) => satisfies(normalized, constraint))
  const isDenied = deny.some((pattern) => matchesVersion(pattern, packageName, normalized))
  if (!flag && !isDenied) return
  const reason = flag ? `the upstream flags it: ${flag.reason}` : 'an administrator has denied it'
  throw new Refusal(errcode.failedPrecondition, `version ${version} is blocked`, {
    status: 410,
    warning: `${packageName} ${version} cannot be installed: ${reason}`,
  })
}

/**
 * Compares received bytes with the checksum of the upstream and with the bytes of the first fetch. Returns how they
 * differ, as part of a sentence. Null when they are right. Throws `UpstreamError` for an archive that is not complete.
 */
export async function findDifference(
  { url, type, shasum, sha256 }: MirroredArchive,
  received: ReceivedArchive,
): Promise<string | null> {
  if (received.size === 0) throw new UpstreamError(`${new URL(url).host} sent an empty archive`)
  if (type === 'zip') await refuseBrokenZip(received, url)
  else if (!(await fileStartsLikeArchive(received.bytes ?? received.path, type)))
    throw new UpstreamError(`${new URL(url).host} did not send a ${type} archive`)
  if (shasum !== null && shasum !== received.sha1)
    return `its SHA-1 is ${received.sha1}, and the upstream says ${shasum}`
  if (sha256 !== null && sha256 !== received.sha256)
    return `its bytes differ from those of the first fetch (SHA-256 ${sha256})`
  return null
}

/** Returns whether a file, or bytes, start like an archive of the type. */
export async function fileStartsLikeArchive(source: string | Buffer, type: string): Promise<boolean> {
  if (Buffer.isBuffer(source)) return startsLikeArchive(type, source)
  const file = await open(source, 'r')
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(startBytes), 0, startBytes, 0)
    return startsLikeArchive(type, buffer.subarray(0, bytesRead))
  } finally {
    await file.close()
  }
}

async function refuseBrokenZip({ path, bytes }: ReceivedArchive, url: string): Promise<void> {
  const file = bytes ?? (await open(path, 'r'))
  try {
    await findDirectory(file)
  } catch {
    throw new UpstreamError(`${new URL(url).host} did not send a complete zip archive`)
  } finally {
    if (!Buffer.isBuffer(file)) await file.close()
  }
}

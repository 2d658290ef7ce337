import type pg from 'pg'
import { removePurgedJob } from '../../archives/remove-purged.ts'
import type { Refusal } from '../../domain/refusal.ts'
import { enqueue } from '../../jobs/job.ts'
import { renderPackageChange, renderVersionChange } from '../documents/render.ts'
import { forgetDescription, type LockedPackage } from '../tables/packages.ts'
import { deletePurgedReadmes } from '../tables/readmes.ts'
import {
  findVersionState,
  markAllDeleted,
  markAllPurged,
  markDeleted,
  markPurged,
  unmarkAllDeleted,
  unmarkDeleted,
} from '../tables/version-states.ts'
import {
  changePackage,
  noPackage,
  notNow,
  noVersion,
  type PackageChange,
  type VersionChange,
} from './change.ts'
import { refuseUnreviewed } from './release-rule.ts'
import { requireTrustedPublisher } from './trusted-only.ts'

/**
 * Deletes a version softly (CONTRACT 7.8). The version disappears from the metadata at once. Its archive stays for lock
 * files, and its number cannot be used again. Throws errcode 5 when there is no such version.
 */
export async function deleteVersion(pool: pg.Pool, change: VersionChange): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const deleted = await markDeleted(tx, held.id, change.version)
    if (!deleted) throw noVersion()
    await renderVersionChange(tx, held, deleted, change.baseUrl)
    return { action: 'delete', version: change.version }
  })
}

/**
 * Deletes every version of a package softly. The name stays claimed. Throws errcode 5 when there is nothing to delete.
 */
export async function deletePackage(pool: pg.Pool, change: PackageChange): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const versions = await markAllDeleted(tx, held.id)
    if (versions.length === 0) throw noPackage()
    await renderPackageChange(tx, held, change.baseUrl)
    return { action: 'delete', version: null, details: someOf(versions) }
  })
}

/**
 * Restores a deleted version. Throws errcode 5 when the version does not exist, and errcode 9 when it is purged or not
 * deleted, and where `refuseUnreviewed` refuses it. Throws errcode 7 where only trusted publishers publish.
 */
export async function restoreVersion(pool: pg.Pool, change: VersionChange): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    requireTrustedPublisher(held, change.by)
    await refuseUnreviewed(tx, change, change.version)
    const restored = await unmarkDeleted(tx, held.id, change.version)
    if (!restored) throw await whyNotRestored(tx, held.id, change.version)
    await renderVersionChange(tx, held, restored, change.baseUrl)
    return { action: 'restore', version: change.version }
  })
}

/**
 * Restores the versions that the last deletion of the whole package deleted. Versions that were deleted one by one stay
 * deleted. Throws errcode 9 when there is nothing to restore, and where `refuseUnreviewed` refuses it.
 * Throws errcode 7 where only trusted publishers publish.
 */
export async function restorePackage(pool: pg.Pool, change: PackageChange): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    requireTrustedPublisher(held, change.by)
    await refuseUnreviewed(tx, change, null)
    const versions = await unmarkAllDeleted(tx, held.id)
    if (versions.length === 0) throw notNow('the package was not deleted as a whole, or is purged')
    await renderPackageChange(tx, held, change.baseUrl)
    return { action: 'restore', version: null, details: someOf(versions) }
  })
}

/**
 * Purges a version, even one that is not deleted. Its archive is no longer served. A job removes the file about a second
 * later, unless something else needs the same bytes. The number can never be used again. Throws errcode 5 when there is no
 * such version.
 */
export async function purgeVersion(pool: pg.Pool, change: VersionChange): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const purged = await markPurged(tx, held.id, change.version)
    if (!purged) throw noVersion()
    await finishPurge(tx, held)
    await renderVersionChange(tx, held, purged, change.baseUrl)
    return { action: 'purge', version: change.version }
  })
}

/** Purges every version of a package. The name stays claimed. Throws errcode 5 when there is nothing to purge. */
export async function purgePackage(pool: pg.Pool, change: PackageChange): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const versions = await markAllPurged(tx, held.id)
    if (versions.length === 0) throw noPackage()
    await finishPurge(tx, held)
    await renderPackageChange(tx, held, change.baseUrl)
    return { action: 'purge', version: null, details: someOf(versions) }
  })
}

/** Removes what belongs to versions of a package that are now purged, and has a job remove their archives. */
export async function finishPurge(tx: pg.PoolClient, held: LockedPackage): Promise<void> {
  await deletePurgedReadmes(tx, held.id)
  await enqueue(tx, removePurgedJob, { packageId: held.id })
  await forgetDescription(tx, held.id)
}

async function whyNotRestored(tx: pg.PoolClient, packageId: string, version: string): Promise<Refusal> {
  const state = await findVersionState(tx, packageId, version)
  if (state === null) return noVersion()
  return notNow(`version ${version} is ${state === 'purged' ? 'purged' : 'not deleted'}`)
}

/** Returns the versions for an event: at most 50, and their number. An event with all of them could be too large. */
function someOf(versions: readonly string[]): { versions: string[]; count: number } {
  return { versions: versions.slice(0, 50), count: versions.length }
}

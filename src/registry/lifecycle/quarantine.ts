import type pg from 'pg'
import { relinkVersion } from '../documents/render.ts'
import { copyDescription, type HeldPackage } from '../tables/packages.ts'
import { findVersionState, markQuarantined, unmarkQuarantined } from '../tables/version-states.ts'
import { changePackage, notNow, noVersion, renderDocuments, type VersionChange } from './change.ts'

/**
 * Puts a version into quarantine (COMPOSER A8). It leaves the metadata, so that no Composer chooses it. Its archive is
 * refused with 410, so that no lock file installs it. Throws errcode 5 when there is no such version.
 */
export async function quarantineVersion(pool: pg.Pool, change: VersionChange, reason: string): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const { baseUrl, version } = change
    const quarantined = await markQuarantined(tx, held.id, version, reason)
    if (!quarantined) throw noVersion()
    await showChange(tx, held, quarantined.id, baseUrl)
    return { action: 'quarantine', version, details: { reason } }
  })
}

/** Lifts a quarantine. Throws errcode 5 when there is no such version, errcode 9 when it is not in quarantine. */
export async function liftQuarantine(pool: pg.Pool, change: VersionChange): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const { baseUrl, version } = change
    const released = await unmarkQuarantined(tx, held.id, version)
    if (!released) {
      const state = await findVersionState(tx, held.id, version)
      throw state === null ? noVersion() : notNow(`version ${version} is not in quarantine`)
    }
    await showChange(tx, held, released.id, baseUrl)
    return { action: 'release', version }
  })
}

/** Publishes both documents: they name the package's quarantines. The database renders filter.json itself. */
async function showChange(
  tx: pg.PoolClient,
  held: HeldPackage,
  versionId: string,
  baseUrl: string,
): Promise<void> {
  await relinkVersion(tx, held, versionId, baseUrl)
  await copyDescription(tx, held.id)
  await renderDocuments(tx, held, baseUrl)
}

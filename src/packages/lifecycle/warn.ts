import { randomBytes } from 'node:crypto'
import type pg from 'pg'
import { renderFilter } from '../../documents/filter-document.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import {
  renderBothDocuments,
  renderDocument,
  renderNewestEntry,
  renderVersionChange,
} from '../documents/render.ts'
import {
  type Advisory,
  type AdvisoryText,
  countAdvisories,
  insertAdvisory,
  markQuarantined,
  markWithdrawn,
  unmarkQuarantined,
} from '../tables/package-warnings.ts'
import { type LockedPackage, saveAbandonment } from '../tables/packages.ts'
import { findVersionState } from '../tables/version-states.ts'
import { changePackage, notNow, noVersion, type PackageChange, type VersionChange } from './change.ts'

/** The maximum number of active advisories of a package. Its documents contain all of them. */
export const maxAdvisories = 500

/**
 * Puts a version into quarantine (COMPOSER A8). The version disappears from the metadata, so that Composer does not
 * choose it. Its archive is refused with 410, so that no lock file installs it. Throws errcode 5 when there is no such
 * version.
 */
export async function quarantineVersion(pool: pg.Pool, change: VersionChange, reason: string): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const { baseUrl, version } = change
    const quarantined = await markQuarantined(tx, held.id, version, reason)
    if (!quarantined) throw noVersion()
    await renderQuarantine(tx, held, quarantined, baseUrl)
    return { action: 'quarantine', version, details: { reason } }
  })
}

/** Ends a quarantine. Throws errcode 5 when there is no such version, and errcode 9 when it is not in quarantine. */
export async function liftQuarantine(pool: pg.Pool, change: VersionChange): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const { baseUrl, version } = change
    const released = await unmarkQuarantined(tx, held.id, version)
    if (!released) {
      const state = await findVersionState(tx, held.id, version)
      throw state === null ? noVersion() : notNow(`version ${version} is not in quarantine`)
    }
    await renderQuarantine(tx, held, released, baseUrl)
    return { action: 'release', version }
  })
}

/** Renders both documents and filter.json, because they list the package's quarantines. */
async function renderQuarantine(
  tx: pg.PoolClient,
  held: LockedPackage,
  version: { id: string; isDev: boolean },
  baseUrl: string,
): Promise<void> {
  await renderVersionChange(tx, held, version, baseUrl)
  await renderDocument(tx, held, !version.isDev, baseUrl)
  await renderFilter(tx, held.repositoryId)
}

/**
 * Marks a package as abandoned, or as maintained again. Composer warns people who install an abandoned one. Throws
 * errcode 3 when the package would replace itself.
 */
export async function setAbandoned(
  pool: pg.Pool,
  change: PackageChange,
  /** The value of Composer's `abandoned`: true, or the name of the replacement. Null for a maintained package. */
  abandoned: true | string | null,
): Promise<void> {
  if (abandoned === change.packageName) {
    throw new Refusal(errcode.invalidArgument, 'replacement: a package cannot replace itself')
  }
  await changePackage(pool, change, async (tx, held) => {
    await saveAbandonment(tx, held.id, abandoned)
    const changed = { ...held, abandoned }
    for (const isDev of [false, true]) await renderNewestEntry(tx, changed, isDev, change.baseUrl)
    await renderBothDocuments(tx, changed, change.baseUrl)
    const details = {
      ...(typeof abandoned === 'string' && { replacement: abandoned }),
      ...(typeof held.abandoned === 'string' && { from: { replacement: held.abandoned } }),
    }
    return { action: abandoned === null ? 'unabandon' : 'abandon', version: null, details }
  })
}

/**
 * Publishes a security advisory for a package. `composer audit` and `composer update` see it at once. Throws errcode 9
 * when the package has too many.
 */
export async function publishAdvisory(
  pool: pg.Pool,
  change: PackageChange,
  text: AdvisoryText,
): Promise<Advisory> {
  const { advisory } = await changePackage(pool, change, async (tx, held) => {
    if ((await countAdvisories(tx, held.id)) >= maxAdvisories) {
      throw notNow(`the package has ${maxAdvisories} advisories, which is the maximum: withdraw one first`)
    }
    const advisory = await insertAdvisory(tx, held.id, makeAdvisoryId(), text)
    await renderBothDocuments(tx, held, change.baseUrl)
    const details = { advisory_id: advisory.advisoryId, ...text }
    return { action: 'advise', version: null, details, advisory } as const
  })
  return advisory
}

/** Withdraws an advisory. Throws errcode 5 when the package has no active advisory with that id. */
export async function withdrawAdvisory(
  pool: pg.Pool,
  change: PackageChange,
  advisoryId: string,
): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const isWithdrawn = await markWithdrawn(tx, held.id, advisoryId)
    if (!isWithdrawn) throw new Refusal(errcode.notFound, 'advisory not found')
    await renderBothDocuments(tx, held, change.baseUrl)
    return { action: 'withdraw', version: null, details: { advisory_id: advisoryId } }
  })
}

/** Returns an id such as SVC-7kq2-m4tz-x3dp. It has 60 random bits, so that no two registries create the same id. */
export function makeAdvisoryId(): string {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567'
  const picked = Array.from(randomBytes(12), (byte) => letters[byte & 31]).join('')
  return `SVC-${picked.slice(0, 4)}-${picked.slice(4, 8)}-${picked.slice(8)}`
}

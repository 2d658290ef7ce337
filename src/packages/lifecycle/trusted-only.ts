import type pg from 'pg'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { type LockedPackage, saveOnlyTrustedPublishers } from '../tables/packages.ts'
import { changePackage, type PackageChange } from './change.ts'

/**
 * Changes whether only trusted publishers publish versions of a package, and writes an event if that is new. Throws errcode 5
 * for an unknown package.
 */
export async function setOnlyTrustedPublishers(
  pool: pg.Pool,
  change: PackageChange,
  isOnly: boolean,
): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    if (held.onlyTrustedPublishers === isOnly) return null
    await saveOnlyTrustedPublishers(tx, held.id, isOnly)
    const details = { only_trusted_publishers: isOnly, from: { only_trusted_publishers: !isOnly } }
    return { action: 'change-package', version: null, details }
  })
}

/**
 * Refuses everybody who is no trusted publisher to bring a version into a package that only they publish. `by` is who has
 * uploaded the version: what a trusted publisher has staged, people may release. Throws errcode 7.
 */
export function requireTrustedPublisher(held: LockedPackage, by: Pick<Principal, 'token'>): void {
  if (!held.onlyTrustedPublishers || by.token?.kind === 'publisher') return
  throw new Refusal(
    errcode.permissionDenied,
    `only trusted publishers publish ${held.name}: upload the version from a CI job that the repository trusts, or let an admin end this in the menu of the package`,
  )
}

import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { insertEvent } from '../../events/events.ts'
import { type LockedPackage, lockNamedPackage, saveOnlyTrustedPublishers } from '../tables/packages.ts'
import { noPackage, type PackageChange } from './change.ts'

/**
 * Changes whether only trusted publishers publish versions of a package, and writes an event if that is new. Throws errcode 5
 * for an unknown package.
 */
export async function setOnlyTrustedPublishers(
  pool: pg.Pool,
  { repositoryId, packageName, by }: PackageChange,
  isOnly: boolean,
): Promise<void> {
  await transaction(pool, async (tx) => {
    const held = await lockNamedPackage(tx, repositoryId, packageName)
    if (!held) throw noPackage()
    if (held.onlyTrustedPublishers === isOnly) return
    await saveOnlyTrustedPublishers(tx, held.id, isOnly)
    const details = { only_trusted_publishers: isOnly, from: { only_trusted_publishers: !isOnly } }
    await insertEvent(tx, by, { action: 'change-package', repositoryId, packageName, details })
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

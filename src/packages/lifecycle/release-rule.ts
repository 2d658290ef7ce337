import type pg from 'pg'
import type { ReleaseRule } from '../../domain/permissions.ts'
import type { Principal } from '../../domain/principal.ts'
import { findRepository } from '../../groups/repositories.ts'
import { saveReleaseRule } from '../tables/packages.ts'
import { isReviewed } from '../tables/staged-versions.ts'
import { changePackage, notNow, type PackageChange } from './change.ts'

/**
 * Changes how versions of a package are released, and writes an event if it is another rule then. Throws errcode 5 for an
 * unknown package.
 */
export async function setReleaseRule(
  pool: pg.Pool,
  change: PackageChange,
  release: ReleaseRule,
): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    const former = await saveReleaseRule(tx, held.id, release)
    if (former === release) return null
    return { action: 'change-package', version: null, details: { release, from: { release: former } } }
  })
}

/**
 * Refuses to bring back deleted versions of a package with reviewed releases, if one person could do it with a token, or
 * alone where two people are needed: such a version comes back by the operator, or in a browser, whose page asks for a
 * second factor. Throws errcode 9 with 409.
 */
export async function refuseUnreviewed(
  tx: pg.PoolClient,
  repositoryId: string,
  packageName: string,
  by: Principal,
): Promise<void> {
  if (by.via === 'command' || !(await isReviewed(tx, repositoryId, packageName))) return
  if (by.token !== null) throw notNow('releases of this package are reviewed: restore it in the browser')
  const repository = await findRepository(tx, repositoryId)
  if (repository?.twoPeople) {
    throw notNow(
      'releases in this repository need two people: upload another version, or ask for svc version restore',
    )
  }
}

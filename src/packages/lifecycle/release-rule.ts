import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { ReleaseRule } from '../../domain/permissions.ts'
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
 * second factor. Null stands for all versions of the last deletion. Throws errcode 9 with 409, and what to do instead.
 */
export async function refuseUnreviewed(
  db: Queryable,
  { repositoryId, packageName, by }: Omit<PackageChange, 'baseUrl'>,
  version: string | null,
): Promise<void> {
  if (by.via === 'command' || !(await isReviewed(db, repositoryId, packageName))) return
  const repository = await findRepository(db, repositoryId)
  if (repository?.twoPeople) {
    const what = `${repository.path} ${packageName}`
    const command = version === null ? `package restore ${what}` : `version restore ${what} ${version}`
    throw notNow(
      `releases in this repository need two people, and nobody reviews what comes back. Upload it with a new version number, or let an operator run: svc ${command}`,
    )
  }
  if (by.token !== null) throw notNow('releases of this package are reviewed: restore it in the browser')
}

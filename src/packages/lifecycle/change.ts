import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import type { RegistryAction } from '../../events/actions.ts'
import { insertEvent } from '../../events/events.ts'
import { queueProjectCheck } from '../../projects/check-projects.ts'
import { type LockedPackage, lockNamedPackage } from '../tables/packages.ts'

/** A change of a published package: the package, who makes it, and the base URL of links. */
export interface PackageChange {
  repositoryId: string
  packageName: string
  by: Principal
  baseUrl: string
}

/** A change of one version of a package. */
export interface VersionChange extends PackageChange {
  /** The version as in the URL of its upload. */
  version: string
}

/** The result of a change, for its event. */
export interface ChangeRecord {
  action: RegistryAction
  /** Null for a change of the whole package. */
  version: string | null
  details?: Record<string, unknown>
}

/** The changes that people who have the package in a lock file must know. */
const warnings: readonly RegistryAction[] = [
  'advise',
  'withdraw',
  'quarantine',
  'release',
  'abandon',
  'unabandon',
]

/**
 * Runs a change in one transaction, and holds the lock that every change of the package takes. The rows, the documents
 * and the event become visible together. There is no event for null. Throws errcode 5 for an unknown package.
 */
export async function changePackage<D extends ChangeRecord | null>(
  pool: pg.Pool,
  { repositoryId, packageName, by }: PackageChange,
  alter: (tx: pg.PoolClient, held: LockedPackage) => Promise<D>,
): Promise<D> {
  return transaction(pool, async (tx) => {
    const held = await lockNamedPackage(tx, repositoryId, packageName)
    if (!held) throw noPackage()
    const record = await alter(tx, held)
    if (record) {
      await insertEvent(tx, by, { repositoryId, packageName, ...record })
      if (warnings.includes(record.action)) await queueProjectCheck(tx, repositoryId)
    }
    return record
  })
}

/** Returns the error for a package that the repository never had, or that has no versions left. */
export function noPackage(): Refusal {
  return new Refusal(errcode.notFound, 'package not found')
}

/** Returns the error for a version that the package never had, or whose state does not allow the change. */
export function noVersion(): Refusal {
  return new Refusal(errcode.notFound, 'version not found')
}

/** Returns the error for a change that the current state does not allow: errcode 9, HTTP 409. */
export function notNow(errmsg: string): Refusal {
  return new Refusal(errcode.failedPrecondition, errmsg, { status: 409 })
}

import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import type { RegistryAction } from '../../events/actions.ts'
import { insertEvent } from '../../events/events.ts'
import { renderDocument, renderEntries, renderEntriesAround } from '../documents/render.ts'
import { copyDescription, type LockedPackage, lockNamedPackage } from '../tables/packages.ts'

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

/**
 * Runs a change in one transaction, and holds the lock that every change of the package takes. The rows, the documents
 * and the event become visible together. Throws errcode 5 for an unknown package.
 */
export async function changePackage<D extends ChangeRecord>(
  pool: pg.Pool,
  { repositoryId, packageName, by }: PackageChange,
  alter: (tx: pg.PoolClient, held: LockedPackage) => Promise<D>,
): Promise<D> {
  return transaction(pool, async (tx) => {
    const held = await lockNamedPackage(tx, repositoryId, packageName)
    if (!held) throw noPackage()
    const record = await alter(tx, held)
    await insertEvent(tx, by, { repositoryId, packageName, ...record })
    return record
  })
}

/**
 * Renders the documents after one version has appeared or disappeared. The generated column `is_listed` says which versions
 * the documents contain.
 */
export async function showVersion(
  tx: pg.PoolClient,
  held: LockedPackage,
  { id, isDev }: { id: string; isDev: boolean },
  baseUrl: string,
): Promise<void> {
  await renderEntriesAround(tx, held, id, baseUrl)
  await copyDescription(tx, held)
  await renderDocument(tx, held, isDev, baseUrl)
}

/** Publishes the documents after several versions of a package have changed. */
export async function showPackage(tx: pg.PoolClient, held: LockedPackage, baseUrl: string): Promise<void> {
  for (const isDev of [false, true]) await renderEntries(tx, held, isDev, baseUrl)
  await copyDescription(tx, held)
  await renderBothDocuments(tx, held, baseUrl)
}

/** Publishes both documents of a package from its unchanged entries. */
export async function renderBothDocuments(
  tx: pg.PoolClient,
  held: LockedPackage,
  baseUrl: string,
): Promise<void> {
  for (const isDev of [false, true]) await renderDocument(tx, held, isDev, baseUrl)
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

import type pg from 'pg'
import { relinkNewest } from '../documents/render.ts'
import { saveAbandonment } from '../tables/packages.ts'
import { changePackage, type PackageChange, renderDocuments } from './change.ts'

/** Marks a package as abandoned, or as maintained again. Composer warns people who install an abandoned one. */
export async function setAbandoned(
  pool: pg.Pool,
  change: PackageChange,
  /** The value of Composer's `abandoned`: true, or the name of the replacement; null for a maintained package. */
  abandoned: true | string | null,
): Promise<void> {
  await changePackage(pool, change, async (tx, held) => {
    await saveAbandonment(tx, held.id, abandoned)
    const changed = { ...held, abandoned }
    for (const isDev of [false, true]) await relinkNewest(tx, changed, isDev, change.baseUrl)
    await renderDocuments(tx, changed, change.baseUrl)
    const details = typeof abandoned === 'string' ? { replacement: abandoned } : {}
    return { action: abandoned === null ? 'unabandon' : 'abandon', version: null, details }
  })
}

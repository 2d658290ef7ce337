import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import { holdPackage } from '../tables/packages.ts'
import { listOutdatedPackages, listOutdatedRoots } from './documents.ts'
import { relinkDocument, renderDocument, renderRoot } from './render.ts'

/**
 * Renders anew every document whose links were built from another address than `baseUrl`: before the server listens,
 * for its documents stand ready made. Answers how many packages had such documents.
 */
export async function rerenderDocuments(pool: pg.Pool, baseUrl: string): Promise<number> {
  let count = 0
  for (let ids = await listOutdatedPackages(pool, baseUrl); ids.length > 0; ) {
    for (const id of ids) await rerenderPackage(pool, id, baseUrl)
    count += ids.length
    ids = await listOutdatedPackages(pool, baseUrl)
  }
  for (const id of await listOutdatedRoots(pool, baseUrl)) {
    await transaction(pool, (tx) => renderRoot(tx, id, baseUrl))
  }
  return count
}

function rerenderPackage(pool: pg.Pool, packageId: string, baseUrl: string): Promise<void> {
  return transaction(pool, async (tx) => {
    const held = await holdPackage(tx, packageId)
    if (!held) return
    for (const isDev of [false, true]) {
      await relinkDocument(tx, held, isDev, baseUrl)
      await renderDocument(tx, held, isDev, baseUrl)
    }
  })
}

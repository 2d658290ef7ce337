import type pg from 'pg'
import { transaction } from '../../database/database.ts'
import { noteListingChange } from '../../documents/listing.ts'
import {
  listOutdatedDocuments,
  listOutdatedPackages,
  listOutdatedRoots,
  outdatedDocuments,
} from '../../documents/outdated.ts'
import type { Job } from '../../jobs/job.ts'
import { lockPackage } from '../tables/packages.ts'
import { renderDocument, renderRoot } from './render.ts'

/**
 * Renders all documents that have links of another base URL, or an older format. It runs in the background. A request does
 * not wait for it: it renders its own document first. Several processes may do this at once. Returns the number of packages and
 * repositories whose documents it rendered. Stops early when the signal is aborted. A failure does not keep the others
 * from being rendered. At the end it is thrown, as the cause of an error that counts the failures.
 */
export async function rerenderDocuments(
  pool: pg.Pool,
  baseUrl: string,
  signal?: AbortSignal,
): Promise<{ packages: number; repositories: number }> {
  const rendered = { packages: 0, repositories: 0 }
  const failures: unknown[] = []
  const attempt = async (kind: keyof typeof rendered, work: () => Promise<void>) => {
    try {
      await work()
      rendered[kind] += 1
    } catch (error) {
      failures.push(error)
    }
  }
  // Render packages.json first, because Composer finds everything else by its links.
  for (const id of await listOutdatedRoots(pool, baseUrl)) {
    if (signal?.aborted) return rendered
    await attempt('repositories', () => rerenderRoot(pool, id, baseUrl))
  }
  let ids = await listOutdatedPackages(pool, baseUrl, '0')
  while (ids.length > 0) {
    for (const id of ids) {
      if (signal?.aborted) return rendered
      await attempt('packages', () => rerenderPackage(pool, id, baseUrl))
    }
    ids = await listOutdatedPackages(pool, baseUrl, ids.at(-1) as string)
  }
  if (failures.length > 0) {
    throw new Error(`${failures.length} packages or repositories could not be rendered`, {
      cause: failures[0],
    })
  }
  return rendered
}

/** Renders the documents again that a rename has made outdated. */
export const renderOutdatedJob: Job = {
  ...outdatedDocuments,
  async run({ db, config }, _data, signal) {
    await rerenderDocuments(db, config.baseUrl, signal)
    signal.throwIfAborted()
  },
}

/** Renders a repository's packages.json again. */
export async function rerenderRoot(pool: pg.Pool, repositoryId: string, baseUrl: string): Promise<void> {
  // Documents of the same revision are not stored again.
  await noteListingChange(pool, repositoryId)
  await renderRoot(pool, repositoryId, baseUrl)
}

/** Renders those documents of a package again that have links of another base URL, or an older format. */
export function rerenderPackage(pool: pg.Pool, packageId: string, baseUrl: string): Promise<void> {
  return transaction(pool, async (tx) => {
    const held = await lockPackage(tx, packageId)
    if (!held) return
    // Read them under the lock, because another process may have rendered them since they were listed.
    for (const isDev of await listOutdatedDocuments(tx, packageId, baseUrl)) {
      await renderDocument(tx, held, isDev, baseUrl)
    }
  })
}

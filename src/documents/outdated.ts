import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import { enqueue } from '../jobs/job.ts'
import { hasOldFormat } from './stored-documents.ts'

/** The job that renders outdated documents again, as its row in the queue needs it: packages/documents/rerender.ts does the work. */
export const outdatedDocuments = { name: 'render-outdated-documents', singleton: true } as const

/** Marks all documents of repositories as outdated, and queues the job that renders them again with their new URLs. */
export async function markDocumentsOutdated(
  tx: pg.PoolClient,
  repositoryIds: readonly string[],
): Promise<void> {
  await tx.query(
    `with roots as (update root_document set base_url = '' where repository_id = any($1::bigint[])),
          -- A packages.json that is being rendered with the old path is older than this revision.
          listings as (update repository_listing set revision = nextval('document_revision')
                        where repository_id = any($1)),
          mirrored as (update mirrored_document d set base_url = '' from mirrored_package p
                        where p.id = d.package_id and p.repository_id = any($1))
     update package_document set base_url = '' where repository_id = any($1)`,
    [repositoryIds],
  )
  await enqueue(tx, outdatedDocuments, {})
}

/** SQL: whether the document `d` has links of another base URL, the first parameter, or an older format. */
const isOutdated = (kind: 'package' | 'root') => `(d.base_url <> $1 or ${hasOldFormat(kind)})`

/**
 * Lists packages with a document that has links of another base URL, or an older format. Returns the next thousand
 * after an id, in the order of their ids.
 */
export async function listOutdatedPackages(db: Queryable, baseUrl: string, after: string): Promise<string[]> {
  const { rows } = await db.query<{ packageId: string }>(
    `select distinct d.package_id as "packageId" from package_document d
      where d.package_id > $2 and ${isOutdated('package')} order by d.package_id limit 1000`,
    [baseUrl, after],
  )
  return rows.map(({ packageId }) => packageId)
}

/**
 * Lists the documents of a package that have links of another base URL, or an older format. Returns `isDev` of each.
 */
export async function listOutdatedDocuments(
  db: Queryable,
  packageId: string,
  baseUrl: string,
): Promise<boolean[]> {
  const { rows } = await db.query<{ isDev: boolean }>(
    `select d.is_dev as "isDev" from package_document d where d.package_id = $2 and ${isOutdated('package')}`,
    [baseUrl, packageId],
  )
  return rows.map(({ isDev }) => isDev)
}

/** Lists the repositories whose packages.json has links of another base URL, or an older format. */
export async function listOutdatedRoots(db: Queryable, baseUrl: string): Promise<string[]> {
  const { rows } = await db.query<{ repositoryId: string }>(
    `select d.repository_id as "repositoryId" from root_document d where ${isOutdated('root')}`,
    [baseUrl],
  )
  return rows.map(({ repositoryId }) => repositoryId)
}

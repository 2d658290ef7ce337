import type pg from 'pg'

/** The job that renders outdated documents again. packages/documents/rerender.ts does the work. */
export const renderOutdated = { name: 'render-outdated-documents', singleton: true } as const

/** Marks all documents of repositories as outdated, so that they are rendered again with their new URLs. */
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
}

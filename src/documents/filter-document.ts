import type { Queryable } from '../database/database.ts'

/**
 * Renders the filter.json of a repository from its quarantines and the malware flags of its upstreams. Call it in the
 * transaction that changes them, in a statement after the change. It locks the repository.
 */
export async function renderFilter(db: Queryable, repositoryId: string): Promise<void> {
  await db.query({
    name: 'render-filter',
    text: 'select render_filter_document($1)',
    values: [repositoryId],
  })
}

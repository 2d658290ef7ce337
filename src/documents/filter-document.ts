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

/** Lists the repositories that have a filter.json, or need one. */
export async function listFilteredRepositories(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ repositoryId: string }>(
    `select repository_id as "repositoryId" from filter_document
     union
     select p.repository_id from package_version v join package p on p.id = v.package_id
      where v.quarantined_at is not null`,
  )
  return rows.map(({ repositoryId }) => repositoryId)
}

/** Stores the repositories of documents that the previous release has added. They change now, for lists of changes. */
export async function completeDocuments(db: Queryable): Promise<void> {
  await db.query(
    `update package_document d
        set repository_id = p.repository_id,
            last_modified = greatest(date_trunc('second', now()), d.last_modified + interval '1 second')
       from package p
      where p.id = d.package_id and d.repository_id is null`,
  )
}

import type { Queryable } from '../database/database.ts'

/**
 * Stores that the content of a repository's packages.json has changed. Call it last in a transaction: it locks the
 * repository, so that revisions grow in the order of the commits.
 */
export async function noteListingChange(db: Queryable, repositoryId: string): Promise<void> {
  await db.query({
    name: 'note-listing-change',
    text: `with held as materialized (select id from repository where id = $1 for no key update)
           insert into repository_listing (repository_id) select id from held
           on conflict (repository_id) do update set revision = nextval('document_revision')`,
    values: [repositoryId],
  })
}

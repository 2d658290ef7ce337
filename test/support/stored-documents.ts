import type { Queryable } from '../../src/database/database.ts'
import type { DocumentKind } from '../../src/documents/stored-documents.ts'
import { aName, aRepository } from './actors.ts'

/** Returns the id of a repository, a package or a mirrored package without a document. */
export async function aDocumentOwner(db: Queryable, kind: DocumentKind): Promise<string> {
  const repository = await aRepository(db)
  if (kind === 'root' || kind === 'filter') return repository.id
  const table = kind === 'package' ? 'package' : 'mirrored_package'
  const { rows } = await db.query<{ id: string }>(
    `insert into ${table} (repository_id, name) values ($1, $2) returning id`,
    [repository.id, `acme/${aName('lib')}`],
  )
  return (rows[0] as { id: string }).id
}

/** Makes revisions come again that documents have already, as on a replica that takes over. */
export async function moveRevisionsBack(db: Queryable): Promise<void> {
  await db.query(`select setval('document_revision', 1)`)
}

/** Renders the filter.json of a repository. */
export async function renderFilter(db: Queryable, repositoryId: string): Promise<void> {
  await db.query('select render_filter_document($1)', [repositoryId])
}

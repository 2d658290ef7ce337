import type { Queryable } from '../../src/database/database.ts'
import type { DocumentKind } from '../../src/documents/stored-documents.ts'
import { aName, aRepository } from './actors.ts'

type Id = { id: string }

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

/**
 * Gives each package of a repository without a document a copy of that of another package. The first one changed an
 * hour ago, and so many of the next ones in each second; null: all of them.
 */
export async function copyDocuments(db: Queryable, repository: Id, perSecond: number | null): Promise<void> {
  // Without "materialized", PostgreSQL searches the document again for each row: among those that it just inserted.
  await db.query(
    `with d as materialized (
       select base_url, plain, gzip, brotli from package_document where repository_id = $1 and not is_dev limit 1
     ), missing as (
       select id, row_number() over (order by id) - 1 as i from package p
        where repository_id = $1 and not exists (select from package_document where package_id = p.id)
     )
     insert into package_document (package_id, repository_id, is_dev, base_url, last_modified, plain, gzip, brotli)
     select id, $1, false, d.base_url,
            date_trunc('second', now()) - interval '1 hour' + coalesce(i / $2::int, 0) * interval '1 second',
            d.plain, d.gzip, d.brotli
       from missing cross join d`,
    [repository.id, perSecond],
  )
}

/** Gives each package of a repository without documents empty ones. */
export async function addEmptyDocuments(db: Queryable, repository: Id): Promise<void> {
  await db.query(
    `insert into package_document (package_id, repository_id, is_dev, base_url, last_modified, plain, gzip, brotli)
     select id, $1, is_dev, 'http://svc.test:8080', now(), '', '', '' from package p, unnest(array[false, true]) is_dev
      where repository_id = $1 and not exists (select from package_document where package_id = p.id)`,
    [repository.id],
  )
}

/** Lets seconds pass since the documents of all packages changed. */
export async function ageChanges(db: Queryable, seconds: number): Promise<void> {
  await db.query('update package_document set last_modified = last_modified - make_interval(secs => $1)', [
    seconds,
  ])
}

/** Lets the documents of a package have changed minutes later. */
export async function delayChange(
  db: Queryable,
  repository: Id,
  name: string,
  minutes: number,
): Promise<void> {
  await db.query(
    `update package_document d set last_modified = last_modified + make_interval(mins => $3) from package p
      where p.id = d.package_id and p.repository_id = $1 and p.name = $2`,
    [repository.id, name, minutes],
  )
}

/** The state of a document that an ETag stands for. */
export interface DocumentState {
  revision: string
  lastModified: Date
}

/** Returns the state of the document of stable versions of the only package of a repository. */
export async function documentState(db: Queryable, repository: Id): Promise<DocumentState> {
  const { rows } = await db.query<DocumentState>(
    `select revision, last_modified as "lastModified" from package_document where repository_id = $1 and not is_dev`,
    [repository.id],
  )
  return rows[0] as DocumentState
}

/** Gives the documents of stable versions of a repository a state, as a sequence that went back does. */
export async function setDocumentState(
  db: Queryable,
  repository: Id,
  { revision, lastModified }: DocumentState,
): Promise<void> {
  await db.query(
    `update package_document
        set revision = $2, last_modified = $3, content_tag = content_tag_of($2, plain)
      where repository_id = $1 and not is_dev`,
    [repository.id, revision, lastModified],
  )
}

/** Changes the revisions of a repository's documents alone, as a process of an earlier release does. */
export async function drawRevisions(db: Queryable, repository: Id): Promise<void> {
  await db.query(
    `update package_document set revision = nextval('document_revision') where repository_id = $1`,
    [repository.id],
  )
}

/** Takes the tags of their contents from a repository's documents, as a process of an earlier release does. */
export async function forgetContentTags(db: Queryable, repository: Id): Promise<void> {
  await db.query('update package_document set content_tag = null where repository_id = $1', [repository.id])
}

/** Makes the documents of all packages, and each packages.json, as if earlier releases had rendered them as `{}`. */
export async function outdateDocuments(db: Queryable): Promise<void> {
  await db.query(
    `update package_document set format = 0, plain = '{}', revision = nextval('document_revision')`,
  )
  await db.query(`update root_document set format = 1, plain = '{}', revision = nextval('document_revision')`)
}

/** Sets the format of each stored packages.json: another one than that of a release is rendered again. */
export async function setRootFormat(db: Queryable, format: number): Promise<void> {
  await db.query('update root_document set format = $1', [format])
}

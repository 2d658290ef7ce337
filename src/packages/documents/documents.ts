import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { EncodedDocument } from '../../documents/encodings.ts'
import type { RegistryRequest, WithAccess } from '../../groups/access.ts'
import { forEachRequest, oneRow, type RequestValues } from '../../groups/for-each-request.ts'
import {
  type FoundMirror,
  type MirrorTerms,
  selectMirror,
} from '../../upstreams/tables/mirrored-documents.ts'

/**
 * The versions of the document formats that this release renders. When you change the content of a document, raise its
 * number, so that stored documents are rendered again.
 */
const formats = { package: 1, root: 3 }

/** A document, with the access to it. Another statement reads the bytes, because most requests need none. */
export interface FoundDocument extends WithAccess {
  /** The id of the package or repository that the document describes. Null when there is none. */
  subjectId: string | null
  /** The revision changes with every change of the document. Null when no document is stored. */
  revision: string | null
  /** The revision and a hash of the content: see `content_tag_of`. Null before the document is rendered again. */
  contentTag: string | null
  /** The time of the last change. When no document is stored, the time at which its subject was created. */
  lastModified: Date
  /** Whether the stored document has links of another base URL. */
  isMisdirected: boolean
}

/** The document of a package. `mayMirror` is true when the repository has upstreams and no package of that name. */
export interface FoundPackageDocument extends FoundDocument {
  mayMirror: boolean
}

/** SQL: the column of `FoundDocument` for a document `d`. The base URL is the first parameter. */
const isMisdirected = 'coalesce(d.base_url <> $1, false) as "isMisdirected"'

/** The document of a package as its URL names it. */
export interface WantedDocument {
  target: RegistryRequest
  packageName: string
  isDev: boolean
}

/**
 * Finds documents of packages, `p2/<name>.json` or `p2/<name>~dev.json`. Returns one result for each wanted document,
 * in their order.
 */
export function listPackageDocuments(
  db: Queryable,
  wanted: readonly WantedDocument[],
  baseUrl: string,
): Promise<FoundPackageDocument[]> {
  return queryPackageDocuments(db, { ...valuesOf(wanted), commonValues: [baseUrl] })
}

const queryPackageDocuments = forEachRequest<FoundPackageDocument>({
  name: 'list-package-documents',
  commonValues: 1,
  columns: { package_name: 'text', is_dev: 'boolean' },
  query: `
    select p.id as "subjectId", d.revision, d.content_tag as "contentTag", d.last_modified as "lastModified",
           ${isMisdirected},
           p.id is null and exists (select from upstream u where u.repository_id = a.repository_id
                                                             and u.removed_at is null) as "mayMirror"
      from ${oneRow}
      left join package p on p.repository_id = a.repository_id and p.name = call.package_name
      left join package_document d on d.package_id = p.id and d.is_dev = call.is_dev`,
})

/**
 * A document of a repository with upstreams. `verdict` is null for a package of the repository itself, and without
 * upstreams. Otherwise the row describes the document of an upstream.
 */
export type FoundAnyDocument = FoundDocument & (FoundMirror | { verdict: null })

/**
 * Finds the same documents as `listPackageDocuments`, and those of upstreams. The statement takes half as long again, so it
 * is for repositories with upstreams, where it replaces two.
 */
export function listAnyDocuments(
  db: Queryable,
  wanted: readonly WantedDocument[],
  { baseUrl, freshSeconds }: MirrorTerms,
): Promise<FoundAnyDocument[]> {
  return queryAnyDocuments(db, { ...valuesOf(wanted), commonValues: [baseUrl, freshSeconds] })
}

const queryAnyDocuments = forEachRequest<FoundAnyDocument>({
  name: 'list-any-documents',
  commonValues: 2,
  columns: { package_name: 'text', is_dev: 'boolean' },
  query: `
    select p.id as "subjectId", coalesce(d.revision, m.revision) as revision,
           coalesce(d.content_tag, m."contentTag") as "contentTag",
           coalesce(d.last_modified, m."lastModified") as "lastModified", ${isMisdirected}, m.verdict, m."packageId", m."isBound",
           m."upstreamIds", m."isDue", m."isFresh", m."isResting", m."isFound", m.failure, m."failedAt",
           m."isUnusedToday"
      from ${oneRow}
      left join package p on p.repository_id = a.repository_id and p.name = call.package_name
      left join package_document d on d.package_id = p.id and d.is_dev = call.is_dev
      left join lateral (${selectMirror('a.repository_id', '$1', '$2')}
          where p.id is null and exists (select from upstream u where u.repository_id = a.repository_id
                                                                  and u.removed_at is null)) m on true`,
})

function valuesOf(wanted: readonly WantedDocument[]): RequestValues {
  return {
    targets: wanted.map(({ target }) => target),
    columns: [wanted.map(({ packageName }) => packageName), wanted.map(({ isDev }) => isDev)],
  }
}

/** A repository's packages.json, and whether it is the current one. */
export interface FoundRoot extends FoundDocument {
  /** The last change of the content of packages.json. The stored document is current when its revision is not lower. */
  listingRevision: string | null
}

/** Finds the packages.json of repositories. Returns one result for each target, in their order. */
export function listRootDocuments(
  db: Queryable,
  targets: readonly RegistryRequest[],
  baseUrl: string,
): Promise<FoundRoot[]> {
  return queryRootDocuments(db, { targets, commonValues: [baseUrl] })
}

const queryRootDocuments = forEachRequest<FoundRoot>({
  name: 'list-root-documents',
  commonValues: 1,
  columns: {},
  query: repositoryDocument(
    'root_document',
    `${isMisdirected}, (select revision from repository_listing where repository_id = r.id) as "listingRevision"`,
  ),
})

/** Finds the filter.json of repositories. Returns one result for each target, in their order. */
export function listFilterDocuments(
  db: Queryable,
  targets: readonly RegistryRequest[],
): Promise<FoundDocument[]> {
  return queryFilterDocuments(db, { targets })
}

const queryFilterDocuments = forEachRequest<FoundDocument>({
  name: 'list-filter-documents',
  columns: {},
  // A filter.json has no links.
  query: repositoryDocument('filter_document', 'false as "isMisdirected"'),
})

function repositoryDocument(table: string, moreColumns: string): string {
  return `select r.id as "subjectId", d.revision, d.content_tag as "contentTag",
                 coalesce(d.last_modified, r.created_at) as "lastModified", ${moreColumns}
            from ${oneRow}
            left join repository r on r.id = a.repository_id
            left join ${table} d on d.repository_id = r.id`
}

/** Replaces a package's document. Its Last-Modified grows by at least a second, the resolution of an HTTP date. */
export async function savePackageDocument(
  tx: pg.PoolClient,
  document: { packageId: string; isDev: boolean; baseUrl: string },
  { identity, gzip, br }: EncodedDocument,
): Promise<void> {
  await tx.query({
    name: 'save-package-document',
    text: `insert into package_document as d (package_id, is_dev, base_url, format, last_modified, plain, gzip, brotli,
                                               revision, content_tag)
           select $1, $2, $3, ${formats.package}, date_trunc('second', now()), $4, $5, $6, n.revision,
                  content_tag_of(n.revision, $4)
             from (select nextval('document_revision') as revision) n
           on conflict (package_id, is_dev) do update
              set base_url = excluded.base_url, format = excluded.format, plain = excluded.plain,
                  gzip = excluded.gzip, brotli = excluded.brotli, revision = excluded.revision,
                  content_tag = excluded.content_tag,
                  last_modified = greatest(excluded.last_modified, d.last_modified + interval '1 second')`,
    values: [document.packageId, document.isDev, document.baseUrl, identity, gzip, br],
  })
}

/**
 * Stores a repository's packages.json, unless the stored one has this revision or a newer one. If the text changed, its
 * Last-Modified grows by at least a second. The first Last-Modified is later than the creation time of the repository,
 * which is the Last-Modified of an empty repository.
 */
export async function saveRootDocument(
  db: Queryable,
  document: { repositoryId: string; baseUrl: string; revision: string },
  { identity, gzip, br }: EncodedDocument,
): Promise<void> {
  await db.query({
    name: 'save-root-document',
    text: `insert into root_document as d (repository_id, base_url, revision, format, last_modified, plain, gzip, brotli,
                                            content_tag)
           select id, $2, $3, ${formats.root}, date_trunc('second', greatest(now(), created_at + interval '1 second')),
                  $4, $5, $6, content_tag_of($3, $4)
             from repository where id = $1
           on conflict (repository_id) do update
              set base_url = excluded.base_url, format = excluded.format, plain = excluded.plain,
                  gzip = excluded.gzip, brotli = excluded.brotli, revision = excluded.revision,
                  content_tag = excluded.content_tag,
                  last_modified = case when d.plain = excluded.plain then d.last_modified
                    else greatest(excluded.last_modified, d.last_modified + interval '1 second') end
            where d.revision < excluded.revision`,
    values: [document.repositoryId, document.baseUrl, document.revision, identity, gzip, br],
  })
}

const isOutdated = (format: number) => `(base_url <> $1 or format < ${format})`

/**
 * Lists packages with a document that has links of another base URL, or an older format. Returns the next thousand
 * after an id, in the order of their ids.
 */
export async function listOutdatedPackages(db: Queryable, baseUrl: string, after: string): Promise<string[]> {
  const { rows } = await db.query<{ packageId: string }>(
    `select distinct package_id as "packageId" from package_document
      where package_id > $2 and ${isOutdated(formats.package)} order by package_id limit 1000`,
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
    `select is_dev as "isDev" from package_document where package_id = $2 and ${isOutdated(formats.package)}`,
    [baseUrl, packageId],
  )
  return rows.map(({ isDev }) => isDev)
}

/** Lists the repositories whose packages.json has links of another base URL, or an older format. */
export async function listOutdatedRoots(db: Queryable, baseUrl: string): Promise<string[]> {
  const { rows } = await db.query<{ repositoryId: string }>(
    `select repository_id as "repositoryId" from root_document where ${isOutdated(formats.root)}`,
    [baseUrl],
  )
  return rows.map(({ repositoryId }) => repositoryId)
}

import { LRUCache } from 'lru-cache'
import type { Queryable } from '../../database/database.ts'
import { shareStatements } from '../../database/shared-statements.ts'
import {
  type DocumentRow,
  documentColumns,
  documentOf,
  type StoredDocument,
} from '../../documents/stored-documents.ts'
import { keepUpTo } from '../../domain/growing-cache.ts'
import type { RegistryRequest, WithAccess } from '../../groups/access.ts'
import { forEachRequest, oneRow, type RequestValues } from '../../groups/for-each-request.ts'
import {
  type FoundMirror,
  foundMirrorOf,
  type MirrorRow,
  type MirrorTerms,
  selectMirror,
} from '../../upstreams/tables/mirrored-documents.ts'

/** What a request found, with the access to it. The bytes are read later, because most requests need none. */
export interface FoundDocument extends WithAccess {
  /** Null when no document is stored. */
  document: StoredDocument | null
  /** Whether the stored document has links of another base URL. */
  isMisdirected: boolean
}

/** A document of a repository itself, such as packages.json. */
export interface FoundRepositoryDocument extends FoundDocument {
  /** The creation time of the repository. Unknown repositories have none: the access to them is refused. */
  createdAt: Date
}

/** A repository's packages.json. */
export interface FoundRoot extends FoundRepositoryDocument {
  /** The last change of the content of packages.json. The stored document is current when its revision is not lower. */
  listingRevision: string | null
}

/** The document of a package. */
export interface FoundPackageDocument extends FoundDocument {
  /**
   * Where a package comes from that the repository itself does not have, and the state of its document. Null without
   * upstreams.
   */
  mirror: FoundMirror | null
}

/** The document of a package as its URL names it. */
export interface WantedDocument {
  target: RegistryRequest
  packageName: string
  isDev: boolean
}

/** Finds the documents of repositories. Each request takes one round trip, which also reads the access. */
export interface DocumentFinder {
  findRoot: (target: RegistryRequest) => Promise<FoundRoot>
  findFilter: (target: RegistryRequest) => Promise<FoundRepositoryDocument>
  findPackage: (wanted: WantedDocument) => Promise<FoundPackageDocument>
}

/** Opens the searches of a process. Concurrent requests share their statements. */
export function openDocumentFinder(db: Queryable, terms: MirrorTerms): DocumentFinder {
  const ofTarget = { keyOf: ({ key }: RegistryRequest) => key }
  const ofWanted = { keyOf: ({ target }: WantedDocument) => target.key }
  const findOwn = shareStatements(
    (wanted: WantedDocument[]) => listPackageDocuments(db, wanted, terms.baseUrl),
    ofWanted,
  )
  const findAny = shareStatements((wanted: WantedDocument[]) => listAnyDocuments(db, wanted, terms), ofWanted)
  /** Paths of repositories that had upstreams at their last request. They only choose between two correct statements. */
  const withUpstreams = new LRUCache<string, true>(keepUpTo(10_000))

  return {
    findRoot: shareStatements(
      (targets: RegistryRequest[]) => listRootDocuments(db, targets, terms.baseUrl),
      ofTarget,
    ),
    findFilter: shareStatements((targets: RegistryRequest[]) => listFilterDocuments(db, targets), ofTarget),

    async findPackage(wanted) {
      const path = `${wanted.target.group}/${wanted.target.name}`
      if (withUpstreams.has(path)) return findAny(wanted)
      const found = await findOwn(wanted)
      if (!found.mayMirror) return { ...found, mirror: null }
      withUpstreams.set(path, true)
      return findAny(wanted)
    },
  }
}

/** SQL: whether a document `d` has links of another base URL. The base URL is the first parameter. */
const isMisdirected = 'coalesce(d.base_url <> $1, false) as "isMisdirected"'

/** SQL: whether the repository of the access `a` has upstreams. */
const hasUpstreams =
  'exists (select from upstream u where u.repository_id = a.repository_id and u.removed_at is null)'

type FoundRow<Found extends FoundDocument> = Omit<Found, 'document' | 'mirror'> &
  DocumentRow & { ownerId: string | null }

type OwnRow = FoundRow<FoundDocument> & { mayMirror: boolean }

/**
 * Finds documents of packages, `p2/<name>.json` or `p2/<name>~dev.json`. Returns one result for each wanted document,
 * in their order. `mayMirror` is true when the repository has upstreams and no package of that name.
 */
export async function listPackageDocuments(
  db: Queryable,
  wanted: readonly WantedDocument[],
  baseUrl: string,
): Promise<(FoundDocument & { mayMirror: boolean })[]> {
  const rows = await queryPackageDocuments(db, { ...valuesOf(wanted), commonValues: [baseUrl] })
  return rows.map((row, i) => ({
    access: row.access,
    document: documentOf({ kind: 'package', ownerId: row.ownerId, isDev: wanted[i]?.isDev === true }, row),
    isMisdirected: row.isMisdirected,
    mayMirror: row.mayMirror,
  }))
}

const queryPackageDocuments = forEachRequest<OwnRow>({
  name: 'list-package-documents',
  commonValues: 1,
  columns: { package_name: 'text', is_dev: 'boolean' },
  query: `
    select p.id as "ownerId", ${documentColumns}, ${isMisdirected}, p.id is null and ${hasUpstreams} as "mayMirror"
      from ${oneRow}
      left join package p on p.repository_id = a.repository_id and p.name = call.package_name
      left join package_document d on d.package_id = p.id and d.is_dev = call.is_dev`,
})

type AnyRow = FoundRow<FoundDocument> & (MirrorRow | { verdict: null })

/**
 * Finds the same documents as `listPackageDocuments`, and those of upstreams. The statement takes half as long again, so it
 * is for repositories with upstreams, where it replaces two.
 */
export async function listAnyDocuments(
  db: Queryable,
  wanted: readonly WantedDocument[],
  { baseUrl, freshSeconds }: MirrorTerms,
): Promise<FoundPackageDocument[]> {
  const rows = await queryAnyDocuments(db, { ...valuesOf(wanted), commonValues: [baseUrl, freshSeconds] })
  return rows.map((row, i) => {
    const isDev = wanted[i]?.isDev === true
    const { access, ownerId, isMisdirected } = row
    if (row.verdict !== null)
      return { access, isMisdirected, document: null, mirror: foundMirrorOf(row, isDev) }
    return {
      access,
      isMisdirected,
      document: documentOf({ kind: 'package', ownerId, isDev }, row),
      mirror: null,
    }
  })
}

const queryAnyDocuments = forEachRequest<AnyRow>({
  name: 'list-any-documents',
  commonValues: 2,
  columns: { package_name: 'text', is_dev: 'boolean' },
  query: `
    select p.id as "ownerId", coalesce(d.revision, m.revision) as revision,
           coalesce(d.content_tag, m."contentTag") as "contentTag",
           coalesce(d.last_modified, m."lastModified") as "lastModified", ${isMisdirected}, m.verdict, m."packageId", m."isBound",
           m."upstreamIds", m."isDue", m."isFresh", m."isResting", m."isFound", m.failure, m."failedAt",
           m."isAllHeldBack", m."isUnusedToday"
      from ${oneRow}
      left join package p on p.repository_id = a.repository_id and p.name = call.package_name
      left join package_document d on d.package_id = p.id and d.is_dev = call.is_dev
      left join lateral (${selectMirror('a.repository_id', '$1', '$2')}
          where p.id is null and ${hasUpstreams}) m on true`,
})

function valuesOf(wanted: readonly WantedDocument[]): RequestValues {
  return {
    targets: wanted.map(({ target }) => target),
    columns: [wanted.map(({ packageName }) => packageName), wanted.map(({ isDev }) => isDev)],
  }
}

/** Finds the packages.json of repositories. Returns one result for each target, in their order. */
export async function listRootDocuments(
  db: Queryable,
  targets: readonly RegistryRequest[],
  baseUrl: string,
): Promise<FoundRoot[]> {
  const rows = await queryRootDocuments(db, { targets, commonValues: [baseUrl] })
  return rows.map((row) => ({
    ...foundOf('root', row),
    listingRevision: row.listingRevision,
  }))
}

const queryRootDocuments = forEachRequest<FoundRow<FoundRoot>>({
  name: 'list-root-documents',
  commonValues: 1,
  columns: {},
  query: repositoryDocument(
    'root_document',
    `${isMisdirected}, (select revision from repository_listing where repository_id = r.id) as "listingRevision"`,
  ),
})

/** Finds the filter.json of repositories. Returns one result for each target, in their order. */
async function listFilterDocuments(
  db: Queryable,
  targets: readonly RegistryRequest[],
): Promise<FoundRepositoryDocument[]> {
  const rows = await queryFilterDocuments(db, { targets })
  return rows.map((row) => foundOf('filter', row))
}

const queryFilterDocuments = forEachRequest<FoundRow<FoundRepositoryDocument>>({
  name: 'list-filter-documents',
  columns: {},
  // A filter.json has no links.
  query: repositoryDocument('filter_document', 'false as "isMisdirected"'),
})

function repositoryDocument(table: string, moreColumns: string): string {
  return `select r.id as "ownerId", r.created_at as "createdAt", ${documentColumns}, ${moreColumns}
            from ${oneRow}
            left join repository r on r.id = a.repository_id
            left join ${table} d on d.repository_id = r.id`
}

function foundOf(kind: 'root' | 'filter', row: FoundRow<FoundRepositoryDocument>): FoundRepositoryDocument {
  const { access, ownerId, isMisdirected, createdAt } = row
  return { access, isMisdirected, createdAt, document: documentOf({ kind, ownerId, isDev: false }, row) }
}

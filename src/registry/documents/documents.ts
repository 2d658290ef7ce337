import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import { forEachCall } from '../../database/shared-statements.ts'
import {
  type Access,
  accessArrays,
  accessColumns,
  accessOfCall,
  accessParameters,
  type RegistryRequest,
} from '../access.ts'
import type { EncodedDocument, Encoding } from './encodings.ts'

/**
 * The formats that this release renders documents in. Raise one with every change of what such a document says, so
 * that the stored ones are rendered anew.
 */
const formats = { package: 1, root: 2 }

/** A document as one statement finds it, with the access to it. Its bytes are read apart: most requests need none. */
export interface FoundDocument extends Access {
  /** The id of the package or repository that the document describes; null when there is none. */
  subjectId: string | null
  /** Changes with every change of the document; null when none is stored. */
  revision: string | null
  /** When no document is stored: the time at which its subject was created. */
  lastModified: Date
}

/**
 * Finds packages' documents, `p2/<name>.json` or `p2/<name>~dev.json`: one for each wanted document, in that order.
 * `mayMirror`: the repository has no package of that name, but upstreams.
 */
export async function listPackageDocuments(
  db: Queryable,
  wanted: readonly { target: RegistryRequest; packageName: string; isDev: boolean }[],
): Promise<(FoundDocument & { mayMirror: boolean })[]> {
  const { rows } = await db.query<FoundDocument & { mayMirror: boolean }>({
    name: 'list-package-documents',
    text: forEachCall(
      { ...accessParameters, package_name: 'text', is_dev: 'boolean' },
      `select ${accessColumns}, p.id as "subjectId", d.revision, d.last_modified as "lastModified",
              p.id is null and exists (select from upstream u where u.repository_id = a.repository_id
                                                                and u.removed_at is null) as "mayMirror"
         from ${accessOfCall}
         left join package p on p.repository_id = a.repository_id and p.name = call.package_name
         left join package_document d on d.package_id = p.id and d.is_dev = call.is_dev`,
    ),
    values: [
      ...accessArrays(wanted.map(({ target }) => target)),
      wanted.map(({ packageName }) => packageName),
      wanted.map(({ isDev }) => isDev),
    ],
  })
  return rows
}

/** A repository's packages.json, and whether it is the current one. */
export interface FoundRoot extends FoundDocument {
  /** The last change of what packages.json names. The stored document is current when its revision is not lower. */
  listingRevision: string | null
}

/** Finds repositories' packages.json: one for each of the wanted repositories, in that order. */
export async function listRootDocuments(
  db: Queryable,
  targets: readonly RegistryRequest[],
): Promise<FoundRoot[]> {
  const { rows } = await db.query<FoundRoot>({
    name: 'list-root-documents',
    text: forEachCall(
      accessParameters,
      repositoryDocument(
        'root_document',
        ', (select revision from repository_listing where repository_id = r.id) as "listingRevision"',
      ),
    ),
    values: accessArrays(targets),
  })
  return rows
}

/** Finds repositories' filter.json: one for each of the wanted repositories, in that order. */
export async function listFilterDocuments(
  db: Queryable,
  targets: readonly RegistryRequest[],
): Promise<FoundDocument[]> {
  const { rows } = await db.query<FoundDocument>({
    name: 'list-filter-documents',
    text: forEachCall(accessParameters, repositoryDocument('filter_document')),
    values: accessArrays(targets),
  })
  return rows
}

function repositoryDocument(table: string, moreColumns = ''): string {
  return `select ${accessColumns}, r.id as "subjectId", d.revision,
                 coalesce(d.last_modified, r.created_at) as "lastModified"${moreColumns}
            from ${accessOfCall}
            left join repository r on r.id = a.repository_id
            left join ${table} d on d.repository_id = r.id`
}

/** A document's bytes in one content coding, and since when they are these. */
export interface DocumentBytes {
  revision: string
  lastModified: Date
  bytes: Buffer
}

/** How much of a document one statement reads: pg decodes it in one go, some 10 ms for each MiB. */
const pieceBytes = 512 * 1024

/** A piece of a document, and what to compare the next piece with. */
interface DocumentPiece extends DocumentBytes {
  size: number
}

const columnOf = { br: 'brotli', gzip: 'gzip', identity: 'plain' } as const satisfies Record<Encoding, string>

function pieceColumns(encoding: Encoding): string {
  const bytes = columnOf[encoding]
  return `d.revision, d.last_modified as "lastModified", octet_length(d.${bytes}) as size,
          substring(d.${bytes} from $2::integer + 1 for ${pieceBytes}) as bytes`
}

/** Reads a package's document in a content coding. Null when it is gone. */
export async function findPackageBytes(
  db: Queryable,
  packageId: string,
  encoding: Encoding,
  isDev: boolean,
): Promise<DocumentBytes | null> {
  return joinPieces(async (offset) => {
    const { rows } = await db.query<DocumentPiece>({
      name: `find-package-bytes-${encoding}`,
      text: `select ${pieceColumns(encoding)} from package_document d where d.package_id = $1 and d.is_dev = $3`,
      values: [packageId, offset, isDev],
    })
    return rows[0] ?? null
  })
}

/** Reads a repository's packages.json in a content coding. Null when it is gone. */
export async function findRootBytes(
  db: Queryable,
  repositoryId: string,
  encoding: Encoding,
): Promise<DocumentBytes | null> {
  return joinPieces(async (offset) => {
    const { rows } = await db.query<DocumentPiece>({
      name: `find-root-bytes-${encoding}`,
      text: `select ${pieceColumns(encoding)} from root_document d where d.repository_id = $1`,
      values: [repositoryId, offset],
    })
    return rows[0] ?? null
  })
}

/** Reads a repository's filter.json, which is stored uncompressed only. Null when it is gone. */
export async function findFilterBytes(db: Queryable, repositoryId: string): Promise<DocumentBytes | null> {
  return joinPieces(async (offset) => {
    const { rows } = await db.query<DocumentPiece>({
      name: 'find-filter-bytes',
      text: `select ${pieceColumns('identity')} from filter_document d where d.repository_id = $1`,
      values: [repositoryId, offset],
    })
    return rows[0] ?? null
  })
}

/** Reads all pieces of one revision of a document, and begins again when the document changes between two of them. */
async function joinPieces(
  read: (offset: number) => Promise<DocumentPiece | null>,
): Promise<DocumentBytes | null> {
  let pieces: DocumentPiece[] = []
  for (let offset = 0; ; ) {
    const piece = await read(offset)
    if (!piece) return null
    const [first = piece] = pieces
    if (piece.revision !== first.revision) {
      pieces = []
      offset = 0
      continue
    }
    pieces.push(piece)
    offset += piece.bytes.length
    if (offset >= piece.size) {
      const { revision, lastModified } = piece
      return { revision, lastModified, bytes: Buffer.concat(pieces.map(({ bytes }) => bytes)) }
    }
  }
}

/** A changed document, for mirrors. The name of a document for development versions ends with `~dev`. */
export interface DocumentChange {
  type: 'update' | 'resync'
  package: string
  /** Seconds since 1970. */
  time: number
}

/** A part of the changes of a repository's documents. Timestamps are ten-thousandths of a second since 1970. */
export interface DocumentChanges {
  actions: DocumentChange[]
  /** Where the next part begins. */
  timestamp: number
}

/** The maximum number of changes in one response. */
const maxChanges = 5_000

/** Returns the first timestamp for a mirror. It is a minute old, because a change has the time at which it began. */
export async function findChangesTimestamp(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ timestamp: number }>(
    `select (extract(epoch from date_trunc('second', now()) - interval '1 minute') * 10000)::float8 as timestamp`,
  )
  return (rows[0] as { timestamp: number }).timestamp
}

/**
 * Lists the package documents that changed since a timestamp, the earliest first and about 5,000 at once. If more of them
 * changed within one second, the only action is `resync`: the mirror must fetch everything again.
 */
export async function listChanges(
  db: Queryable,
  repositoryId: string,
  since: number,
): Promise<DocumentChanges> {
  const timestamp = await findChangesTimestamp(db)
  const { rows } = await db.query<{ package: string; time: number }>(
    `select p.name || case when d.is_dev then '~dev' else '' end as package,
            extract(epoch from d.last_modified)::float8 as time
       from (select package_id, is_dev, last_modified
               from package_document
              where repository_id = $1 and last_modified >= to_timestamp($2::float8 / 10000)
              order by repository_id, last_modified limit ${maxChanges + 1}) d
       join package p on p.id = d.package_id
      order by d.last_modified, p.name collate "C", d.is_dev`,
    [repositoryId, since],
  )
  const actions = rows.map((row) => ({ type: 'update' as const, ...row }))
  const last = rows.at(-1)
  if (rows.length <= maxChanges || !last) return { actions, timestamp }
  // Whole seconds only: the next part begins with the first second that is not told completely.
  const complete = actions.filter(({ time }) => time < last.time)
  if (complete.length > 0) return { actions: complete, timestamp: Math.min(last.time * 10_000, timestamp) }
  return { actions: [{ type: 'resync', package: '*', time: last.time }], timestamp }
}

/** Replaces a package's document. Its Last-Modified grows by at least a second, the resolution of an HTTP date. */
export async function savePackageDocument(
  tx: pg.PoolClient,
  document: { packageId: string; isDev: boolean; baseUrl: string },
  { identity, gzip, br }: EncodedDocument,
): Promise<void> {
  await tx.query({
    name: 'save-package-document',
    text: `insert into package_document as d (package_id, is_dev, base_url, format, last_modified, plain, gzip, brotli)
           values ($1, $2, $3, ${formats.package}, date_trunc('second', now()), $4, $5, $6)
           on conflict (package_id, is_dev) do update
              set base_url = excluded.base_url, format = excluded.format, plain = excluded.plain,
                  gzip = excluded.gzip, brotli = excluded.brotli, revision = excluded.revision,
                  last_modified = greatest(excluded.last_modified, d.last_modified + interval '1 second')`,
    values: [document.packageId, document.isDev, document.baseUrl, identity, gzip, br],
  })
}

/**
 * Stores a repository's packages.json, unless the stored one has this revision or a newer one. If the text changed, its
 * Last-Modified grows by at least a second. The first one is later than the creation of the repository: that time is
 * the Last-Modified of an empty repository.
 */
export async function saveRootDocument(
  db: Queryable,
  document: { repositoryId: string; baseUrl: string; revision: string },
  { identity, gzip, br }: EncodedDocument,
): Promise<void> {
  await db.query({
    name: 'save-root-document',
    text: `insert into root_document as d (repository_id, base_url, revision, format, last_modified, plain, gzip, brotli)
           select id, $2, $3, ${formats.root}, date_trunc('second', greatest(now(), created_at + interval '1 second')),
                  $4, $5, $6
             from repository where id = $1
           on conflict (repository_id) do update
              set base_url = excluded.base_url, format = excluded.format, plain = excluded.plain,
                  gzip = excluded.gzip, brotli = excluded.brotli, revision = excluded.revision,
                  last_modified = case when d.plain = excluded.plain then d.last_modified
                    else greatest(excluded.last_modified, d.last_modified + interval '1 second') end
            where d.revision < excluded.revision`,
    values: [document.repositoryId, document.baseUrl, document.revision, identity, gzip, br],
  })
}

const isOutdated = (format: number) => `(base_url <> $1 or format < ${format})`

/**
 * Lists packages with a document that has links of another base URL, or an older format: the next thousand after an
 * id, in the order of their ids.
 */
export async function listOutdatedPackages(db: Queryable, baseUrl: string, after: string): Promise<string[]> {
  const { rows } = await db.query<{ packageId: string }>(
    `select distinct package_id as "packageId" from package_document
      where package_id > $2 and ${isOutdated(formats.package)} order by package_id limit 1000`,
    [baseUrl, after],
  )
  return rows.map(({ packageId }) => packageId)
}

/** Lists which of a package's documents have links of another base URL, or an older format: `isDev` of each. */
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

/** Marks all documents of a group's repositories as outdated, so that they are rendered anew: their URLs have changed. */
export async function markDocumentsOutdated(tx: pg.PoolClient, groupId: string): Promise<void> {
  await tx.query(
    `with of_group as (select id from repository where group_id = $1),
          roots as (update root_document set base_url = ''
                     where repository_id in (select id from of_group)),
          mirrored as (update mirrored_document d set base_url = '' from mirrored_package p
                        where p.id = d.package_id and p.repository_id in (select id from of_group))
     update package_document set base_url = ''
      where package_id in (select id from package where repository_id in (select id from of_group))`,
    [groupId],
  )
}

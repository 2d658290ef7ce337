import type { Queryable } from '../database/database.ts'
import { byteaArray, forEachCall, shareStatements } from '../database/shared-statements.ts'
import { openReadCache } from '../domain/read-cache.ts'
import { compress, type EncodedDocument, type Encoding } from './encodings.ts'

interface DocumentTable {
  table: string
  /** The column with the id of the owner. */
  owner: string
  /** Whether an owner has two documents: one of them is for development versions. */
  hasDev: boolean
  /**
   * The version of the format that this release renders. When you change the content of a document, raise its number, so
   * that stored documents are rendered again.
   */
  format: number
}

/** The kinds of stored documents. Their tables have the same columns for the document, and differ in its owner. */
const tables = {
  /** packages.json of a repository. */
  root: { table: 'root_document', owner: 'repository_id', hasDev: false, format: 3 },
  /** filter.json of a repository. The SQL function `render_filter_document` writes it, without compressed bytes. */
  filter: { table: 'filter_document', owner: 'repository_id', hasDev: false, format: 1 },
  /** p2 of a package of the repository itself. */
  package: { table: 'package_document', owner: 'package_id', hasDev: true, format: 1 },
  /** p2 of a package of an upstream. Format 3 has the bytes of format 2; rendering it also stores the licences. */
  mirror: { table: 'mirrored_document', owner: 'package_id', hasDev: true, format: 3 },
} as const satisfies Record<string, DocumentTable>

export type DocumentKind = keyof typeof tables

/** A rendered document, as it is stored: its key, and what identifies its state. The bytes are read when they are sent. */
export interface StoredDocument {
  kind: DocumentKind
  /** The id of the repository, the package or the mirrored package that the document describes. */
  ownerId: string
  isDev: boolean
  /** Grows with every rendering. An older rendering never replaces a newer one. */
  revision: string
  /** The revision and a hash of the content: see `content_tag_of`. Null before the document is rendered again. */
  contentTag: string | null
  /** The time of the last change of the bytes. It only grows, by at least a second, the resolution of an HTTP date. */
  lastModified: Date
  /** The bytes, if this process has just stored them. Otherwise they are read from the database. */
  encoded?: EncodedDocument
}

/** SQL: the columns of a `StoredDocument`, for a document `d`. They are null when none is stored. */
export const documentColumns = 'd.revision, d.content_tag as "contentTag", d.last_modified as "lastModified"'

type DocumentState = Pick<StoredDocument, 'revision' | 'contentTag' | 'lastModified'>

/** A row with `documentColumns`. */
export type DocumentRow = DocumentState | { revision: null; contentTag: null; lastModified: null }

/** Returns the document of a row. Null when none is stored. */
export function documentOf(
  key: Pick<StoredDocument, 'kind' | 'isDev'> & { ownerId: string | null },
  row: DocumentRow,
): StoredDocument | null {
  const { kind, ownerId, isDev } = key
  if (ownerId === null || row.revision === null) return null
  const { revision, contentTag, lastModified } = row
  return { kind, ownerId, isDev, revision, contentTag, lastModified }
}

/** SQL: whether the document `d` has an older format than this release renders. */
export function hasOldFormat(kind: DocumentKind): string {
  return `d.format < ${tables[kind].format}`
}

/** The values that identify a state of a document. */
export interface Validators {
  /** Revision, content and time. No other state of the same document has the same ones, not even after a restore. */
  state: string
  /** Null for a document that an earlier release rendered. */
  etag: string | null
  /** The text of the header. */
  lastModified: string
}

/** Returns the values that identify a state of a document. The entity tag is weak: it is the same in every coding. */
export function validatorsOf({ revision, contentTag, lastModified }: DocumentState): Validators {
  const time = lastModified.toUTCString()
  const prefix = `${revision}-`
  // A process of the previous release changes the revision, but not the tag.
  const hash = contentTag?.startsWith(prefix) ? contentTag.slice(prefix.length) : null
  return {
    state: `${revision} ${hash ?? ''} ${time}`,
    etag: hash === null ? null : `W/"${hash}"`,
    lastModified: time,
  }
}

/**
 * How many bytes of documents the cache keeps. Responses to clients that read slowly share its buffers. They can hold
 * documents that the cache has evicted beyond that. Unlike archives, these are not limited.
 */
const maxCachedBytes = 64 * 1024 * 1024

/** A document's bytes in one content coding, and the state that they belong to. */
export interface DocumentBytes extends Validators {
  bytes: Buffer
}

/** The bytes of stored documents of all kinds. */
export interface DocumentCache {
  /**
   * Returns the bytes of a document in a content coding. They belong to a later state if the document has changed after
   * it was found. Null when it was deleted.
   */
  read: (document: StoredDocument, encoding: Encoding) => Promise<DocumentBytes | null>
}

/**
 * Opens the cache of a process. The key of an entry has the coding, the document and its state. Concurrent requests share
 * one read of bytes that are not cached, and requests for different documents share a statement.
 */
export function openDocumentCache(db: Queryable): DocumentCache {
  const readerOf = (kind: DocumentKind) =>
    shareStatements((wanted: WantedPiece[]) => listDocumentPieces(db, kind, wanted))
  const readers = {
    root: readerOf('root'),
    filter: readerOf('filter'),
    package: readerOf('package'),
    mirror: readerOf('mirror'),
  }

  async function readBytes(document: StoredDocument, encoding: Encoding): Promise<DocumentBytes | undefined> {
    const { kind, ownerId, isDev, encoded } = document
    if (encoded) return { ...validatorsOf(document), bytes: encoded[encoding] }
    const stored = await joinPieces((start) => readers[kind]({ ownerId, isDev, encoding, start }))
    if (!stored) return undefined
    const bytes = kind === 'filter' ? await compress(stored.bytes, encoding) : stored.bytes
    return { ...validatorsOf(stored), bytes }
  }

  const cache = openReadCache<DocumentBytes, { document: StoredDocument; encoding: Encoding }>({
    maxSize: maxCachedBytes,
    sizeOf: ({ bytes }) => bytes.length + 1,
    read: (_key, { document, encoding }) => readBytes(document, encoding),
  })

  return {
    async read(document, encoding) {
      const { kind, ownerId, isDev } = document
      const { state } = validatorsOf(document)
      const key = `${encoding} ${kind} ${ownerId} ${isDev} ${state}`
      const found = await cache.fetch(key, { context: { document, encoding } })
      // The document changed after it was found. Another request may look for the former state: after a restore,
      // revisions come again.
      if (found && found.state !== state) cache.delete(key)
      return found ?? null
    },
  }
}

/** Reads all pieces of one revision of a document. Begins again when the document changes in between. */
async function joinPieces(
  read: (start: number) => Promise<DocumentPiece | null>,
): Promise<DocumentPiece | null> {
  let pieces: DocumentPiece[] = []
  for (let start = 0; ; ) {
    const piece = await read(start)
    if (!piece) return null
    const [first = piece] = pieces
    if (piece.revision !== first.revision) {
      pieces = []
      start = 0
      continue
    }
    pieces.push(piece)
    start += piece.bytes.length
    if (start >= piece.size) return { ...piece, bytes: Buffer.concat(pieces.map(({ bytes }) => bytes)) }
  }
}

/**
 * How many bytes of a document one statement reads. pg decodes them in one step, which takes about 10 ms for each MiB.
 */
const pieceBytes = 512 * 1024

/** A part of a document in a content coding. */
export interface WantedPiece {
  ownerId: string
  isDev: boolean
  encoding: Encoding
  /** The index of its first byte. */
  start: number
}

/** A part of a document, and the size of the whole document in that coding. */
export interface DocumentPiece extends DocumentState {
  size: number
  bytes: Buffer
}

/**
 * Reads parts of documents, at most 512 KiB each. Returns them in their order. Null for a document that is not stored. A
 * filter.json has only the coding `identity`.
 */
export async function listDocumentPieces(
  db: Queryable,
  kind: DocumentKind,
  wanted: readonly WantedPiece[],
): Promise<(DocumentPiece | null)[]> {
  const { rows } = await db.query<DocumentPiece | { revision: null }>({
    name: `list-${kind}-pieces`,
    text: pieceTexts[kind],
    values: [
      wanted.map(({ ownerId }) => ownerId),
      wanted.map(({ isDev }) => isDev),
      wanted.map(({ encoding }) => encoding),
      wanted.map(({ start }) => start),
    ],
  })
  return rows.map((row) => (row.revision === null ? null : row))
}

const pieceTexts = {
  root: pieceText('root'),
  filter: pieceText('filter'),
  package: pieceText('package'),
  mirror: pieceText('mirror'),
}

function pieceText(kind: DocumentKind): string {
  const { table, owner, hasDev } = tables[kind]
  const bytes =
    kind === 'filter'
      ? 'd.plain'
      : `case call.encoding when 'br' then d.brotli when 'gzip' then d.gzip else d.plain end`
  return forEachCall(
    { owner_id: 'bigint', is_dev: 'boolean', encoding: 'text', start: 'integer' },
    `select ${documentColumns}, octet_length(${bytes}) as size,
            substring(${bytes} from call.start + 1 for ${pieceBytes}) as bytes
       from ${table} d where d.${owner} = call.owner_id ${hasDev ? 'and d.is_dev = call.is_dev' : ''}`,
  )
}

/** A document to store. */
export interface Rendering extends EncodedDocument {
  ownerId: string
  isDev: boolean
  /** The base URL of its links. */
  baseUrl: string
  /**
   * The revision of the content that was rendered. Null when the transaction holds the lock of the owner: then nothing
   * newer can be stored.
   */
  revision: string | null
  /** Only for `mirror`: when it must be rendered again. Null when only a change makes that necessary. */
  dueAt?: Date | null
  /** Only for `mirror`: the versions that it holds back until they are old enough. */
  heldBack?: readonly HeldVersion[]
  /** Only for `mirror`: whether it has no versions because of that. */
  isAllHeldBack?: boolean
}

/** A version that is younger than the minimum age of its upstream. */
export interface HeldVersion {
  version: string
  /** Identifies the version and its content within the package. */
  key: string
  /** The time at which it is old enough, in ISO format. */
  until: string
}

/**
 * Stores documents, which all have different keys. Returns them in their order. Null if this revision of a
 * document or a newer one is stored already, or if its repository was deleted. If the bytes did not change, Last-Modified
 * stays, so that clients still get 304.
 */
export async function saveDocuments(
  db: Queryable,
  kind: Exclude<DocumentKind, 'filter'>,
  renderings: readonly Rendering[],
): Promise<(StoredDocument | null)[]> {
  const { rows } = await db.query<DocumentState & { ownerId: string; isDev: boolean }>({
    name: `save-${kind}-documents`,
    text: saveTexts[kind],
    values: [
      renderings.map(({ ownerId }) => ownerId),
      renderings.map(({ isDev }) => isDev),
      renderings.map(({ baseUrl }) => baseUrl),
      renderings.map(({ revision }) => revision),
      byteaArray(renderings.map(({ identity }) => identity)),
      byteaArray(renderings.map(({ gzip }) => gzip)),
      byteaArray(renderings.map(({ br }) => br)),
      ...(kind === 'mirror'
        ? [
            renderings.map(({ dueAt }) => dueAt ?? null),
            renderings.map(({ heldBack = [] }) => JSON.stringify(heldBack)),
            renderings.map(({ isAllHeldBack = false }) => isAllHeldBack),
          ]
        : []),
    ],
  })
  return renderings.map(({ ownerId, isDev, identity, gzip, br }) => {
    const saved = rows.find((row) => row.ownerId === ownerId && row.isDev === isDev)
    return saved ? { kind, ...saved, encoded: { identity, gzip, br } } : null
  })
}

const saveTexts = { root: saveText('root'), package: saveText('package'), mirror: saveText('mirror') }

function saveText(kind: Exclude<DocumentKind, 'filter'>): string {
  const { table, owner, hasDev, format } = tables[kind]
  const key = hasDev ? `${owner}, is_dev` : owner
  const isMirror = kind === 'mirror'
  // Lists of changes read the documents of a repository.
  const ofRepository = kind === 'package'
  // A repository without a document sends its creation time as Last-Modified.
  const [firstTime, repository] =
    kind === 'root'
      ? [
          `greatest(now(), r.created_at + interval '1 second')`,
          'cross join lateral (select created_at from repository where id = n.owner_id limit 1) r',
        ]
      : ['now()', '']
  return `
    insert into ${table} as d (${key}, base_url, format, last_modified, plain, gzip, brotli, revision, content_tag
                               ${ofRepository ? ', repository_id' : ''} ${isMirror ? ', due_at, held_back, is_all_held_back' : ''})
    select n.owner_id, ${hasDev ? 'n.is_dev,' : ''} n.base_url, ${format}, date_trunc('second', ${firstTime}),
           n.plain, n.gzip, n.brotli, n.revision, content_tag_of(n.revision, n.plain)
           ${ofRepository ? ', (select repository_id from package where id = n.owner_id)' : ''}
           ${isMirror ? `, coalesce(n.due_at, 'infinity'), n.held_back, n.is_all_held_back` : ''}
      from (select u.owner_id, u.is_dev, u.base_url, u.plain, u.gzip, u.brotli,
                   ${isMirror ? 'u.due_at, u.held_back, u.is_all_held_back,' : ''}
                   -- The sequence may have gone back: a replica that takes over does not always know its value.
                   coalesce(u.given_revision,
                            greatest(nextval('document_revision'),
                                     (select o.revision + 1 from ${table} o
                                       where o.${owner} = u.owner_id ${hasDev ? 'and o.is_dev = u.is_dev' : ''}))) as revision
              from unnest((select $1::bigint[]), (select $2::boolean[]), (select $3::text[]), (select $4::bigint[]),
                          (select $5::bytea[]), (select $6::bytea[]), (select $7::bytea[])
                          ${isMirror ? ', (select $8::timestamptz[]), (select $9::jsonb[]), (select $10::boolean[])' : ''})
                     as u (owner_id, is_dev, base_url, given_revision, plain, gzip, brotli
                            ${isMirror ? ', due_at, held_back, is_all_held_back' : ''})
           ) n ${repository}
    on conflict (${key}) do update
       set base_url = excluded.base_url, format = excluded.format, plain = excluded.plain, gzip = excluded.gzip,
           brotli = excluded.brotli, revision = excluded.revision, content_tag = excluded.content_tag,
           ${isMirror ? 'due_at = excluded.due_at, held_back = excluded.held_back, is_all_held_back = excluded.is_all_held_back,' : ''}
           last_modified = case when d.plain = excluded.plain then d.last_modified
             else greatest(excluded.last_modified, d.last_modified + interval '1 second') end
     where d.revision < excluded.revision
    returning ${owner} as "ownerId", ${hasDev ? 'is_dev' : 'false'} as "isDev", ${documentColumns}`
}

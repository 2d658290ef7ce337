import type { Queryable } from '../database/database.ts'
import { shareStatements } from '../database/shared-statements.ts'
import { openReadCache } from '../domain/read-cache.ts'
import { compress, type Encoding } from './encodings.ts'
import {
  type DocumentKind,
  type DocumentPiece,
  listDocumentPieces,
  type StoredDocument,
  type Validators,
  validatorsOf,
  type WantedPiece,
} from './stored-documents.ts'

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

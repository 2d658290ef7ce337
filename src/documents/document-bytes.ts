import type { Queryable } from '../database/database.ts'
import type { Encoding } from './encodings.ts'

/** A document's bytes in one content coding, and the time of their last change. */
export interface DocumentBytes {
  revision: string
  contentTag: string | null
  lastModified: Date
  bytes: Buffer
}

/**
 * How many bytes of a document one statement reads. pg decodes them in one step, which takes about 10 ms for each MiB.
 */
export const pieceBytes = 512 * 1024

/** A piece of a document, and the size of the whole document. */
export interface DocumentPiece extends DocumentBytes {
  size: number
}

const columnOf = { br: 'brotli', gzip: 'gzip', identity: 'plain' } as const satisfies Record<Encoding, string>

function pieceColumns(encoding: Encoding): string {
  const bytes = columnOf[encoding]
  return `d.revision, d.content_tag as "contentTag", d.last_modified as "lastModified", octet_length(d.${bytes}) as size,
          substring(d.${bytes} from $2::integer + 1 for ${pieceBytes}) as bytes`
}

/** Reads a package's document in a content coding. Null when the document does not exist. */
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

/** Reads a repository's packages.json in a content coding. Null when it does not exist. */
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

/** Reads a repository's filter.json, which is stored uncompressed only. Null when it does not exist. */
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

/** Reads all pieces of one revision of a document. Begins again when the document changes in between. */
export async function joinPieces(
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
      const { revision, contentTag, lastModified } = piece
      return { revision, contentTag, lastModified, bytes: Buffer.concat(pieces.map(({ bytes }) => bytes)) }
    }
  }
}

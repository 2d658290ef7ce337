import type { Encoding } from './encodings.ts'

/** A document's bytes in one coding, as they were at a revision. */
interface CachedDocument {
  revision: string
  bytes: Buffer
}

/** Bytes of documents, so that the database need not send them again. Every use is decided by the revision it answers. */
export interface DocumentCache {
  /** Null when they are not here. */
  get(document: string, encoding: Encoding): CachedDocument | null
  set(document: string, encoding: Encoding, cached: CachedDocument): void
}

/** A cache of at most so many bytes; what was not used for longest goes first. */
export function makeDocumentCache(maxBytes: number): DocumentCache {
  const kept = new Map<string, CachedDocument>()
  let keptBytes = 0

  function drop(key: string): void {
    keptBytes -= kept.get(key)?.bytes.length ?? 0
    kept.delete(key)
  }

  return {
    get(document, encoding) {
      const key = `${encoding} ${document}`
      const found = kept.get(key)
      if (!found) return null
      // A Map keeps the order of insertion: what is put in again is the youngest.
      kept.delete(key)
      kept.set(key, found)
      return found
    },
    set(document, encoding, cached) {
      const key = `${encoding} ${document}`
      drop(key)
      kept.set(key, cached)
      keptBytes += cached.bytes.length
      for (const oldest of kept.keys()) {
        if (keptBytes <= maxBytes) break
        drop(oldest)
      }
    },
  }
}

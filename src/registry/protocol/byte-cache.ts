/** Bytes under a name, kept in memory so that they need not be fetched again: what may be used, the database has said. */
export interface ByteCache<Kept extends { bytes: Buffer }> {
  /** Null when it is not here. */
  get(key: string): Kept | null
  set(key: string, kept: Kept): void
}

/** A cache of at most so many bytes; what was not used for longest goes first. */
export function makeByteCache<Kept extends { bytes: Buffer }>(maxBytes: number): ByteCache<Kept> {
  const all = new Map<string, Kept>()
  let keptBytes = 0

  function drop(key: string): void {
    keptBytes -= all.get(key)?.bytes.length ?? 0
    all.delete(key)
  }

  return {
    get(key) {
      const found = all.get(key)
      if (!found) return null
      // A Map keeps the order of insertion: what is put in again is the youngest.
      all.delete(key)
      all.set(key, found)
      return found
    },
    set(key, kept) {
      drop(key)
      if (kept.bytes.length > maxBytes) return
      all.set(key, kept)
      keptBytes += kept.bytes.length
      for (const oldest of all.keys()) {
        if (keptBytes <= maxBytes) break
        drop(oldest)
      }
    },
  }
}

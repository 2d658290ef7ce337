import { LRUCache } from 'lru-cache'

interface ReadCacheOptions<Value, Terms> {
  /** The size of all values together. The cache does not keep a value that is larger than that. */
  maxSize: number
  /** Returns the size of a value. It is at least 1. */
  sizeOf: (value: Value) => number
  /** Reads a value that the cache does not have. Undefined when there is none. */
  read: (key: string, terms: Terms) => Promise<Value | undefined>
}

/**
 * Opens a cache of values that take long to read. Concurrent calls of `fetch` with the same key share one read. They get
 * the value that it returns, even when the cache evicts or replaces it before that. If there is no value then, they get
 * an error instead of undefined.
 */
export function openReadCache<Value extends object, Terms = undefined>({
  maxSize,
  sizeOf,
  read,
}: ReadCacheOptions<Value, Terms>): LRUCache<string, Value, Terms> {
  return new LRUCache<string, Value, Terms>({
    maxSize,
    sizeCalculation: sizeOf,
    fetchMethod: (key, _stale, { context }) => read(key, context),
    // `allowStaleOnFetchAbort` must not be set: the waiting calls would get undefined at once.
    ignoreFetchAbort: true,
  })
}

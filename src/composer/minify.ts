import type { Json, JsonObject } from './manifest-json.ts'

/**
 * As a value in a minified entry, this text removes an inherited key. `readComposerJson` removes it from uploaded
 * metadata.
 */
const removed = '__unset'

/**
 * Returns an entry of a minified p2 document (`"minified":"composer/2.0"`). It has the keys that differ from the entry
 * before it, which is the next newer one. The first entry has all keys. Composer inherits whole top-level values.
 */
export function difference(entry: JsonObject, newer: JsonObject | null): JsonObject {
  if (newer === null) return entry
  // Every object has values for keys such as `__proto__`, which an upstream may use.
  const changed = Object.entries(entry).filter(
    ([key, value]) => !Object.hasOwn(newer, key) || !isSame(value, newer[key]),
  )
  const gone = Object.keys(newer).filter((key) => !Object.hasOwn(entry, key))
  return Object.fromEntries([...changed, ...gone.map((key) => [key, removed] as const)])
}

function isSame(value: Json, other: Json | undefined): boolean {
  return JSON.stringify(value) === JSON.stringify(other)
}

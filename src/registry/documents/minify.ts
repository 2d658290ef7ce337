import type { Json, JsonObject } from '../manifest/manifest-json.ts'

/** This value removes an inherited key from an entry. `readComposerJson` refuses it as a value of a package. */
const removed = '__unset'

/**
 * Returns an entry as it is in a minified p2 document (`"minified":"composer/2.0"`): the keys that differ from the entry
 * before it, the next newer one; all keys for the first entry. Composer inherits whole top-level values.
 */
export function difference(entry: JsonObject, newer: JsonObject | null): JsonObject {
  if (newer === null) return entry
  const changed = Object.entries(entry).filter(([key, value]) => !isSame(value, newer[key]))
  const gone = Object.keys(newer).filter((key) => !Object.hasOwn(entry, key))
  return Object.fromEntries([...changed, ...gone.map((key) => [key, removed] as const)])
}

function isSame(value: Json, other: Json | undefined): boolean {
  return JSON.stringify(value) === JSON.stringify(other)
}

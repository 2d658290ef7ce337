import type { Json, JsonObject } from '../manifest/manifest-json.ts'

/** Takes a key away from what an entry inherits. `readComposerJson` lets no value of a package say it. */
const removed = '__unset'

/**
 * An entry as it stands in a minified p2 document (`"minified":"composer/2.0"`): what differs from the entry before
 * it, the next newer one; in full when it is the first. Whole top-level values are compared, as Composer inherits them.
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

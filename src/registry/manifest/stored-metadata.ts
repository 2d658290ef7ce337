import { isConstraint } from './constraint.ts'
import { cleanObject } from './manifest-fields.ts'
import { isJsonObject, type Json, type JsonObject } from './manifest-json.ts'

const linkTypes = ['require', 'require-dev', 'conflict', 'replace', 'provide']
/** A branch that no package has: a version that requires it is never chosen, and harms no other version. */
const matchesNothing = 'dev-unreadable'

/** Lone surrogates are the only letters that JSON.stringify escapes; an escape follows an even number of backslashes. */
const unreadable = /(?<!\\)(?:\\\\)*\\u(?:00|d[89a-f])|[\u007f-\u009f\p{Bidi_C}\u2028\u2029]/u

/** Returns whether JSON text has no character that `repairMetadata` removes. One makes Composer refuse a whole document. */
export function isReadableJson(text: string): boolean {
  return !unreadable.test(text)
}

/**
 * Returns stored metadata as it can be published. Earlier releases let characters through that break a whole document:
 * they are removed, and a constraint that is left without meaning matches nothing.
 */
export function repairMetadata(metadata: JsonObject): JsonObject {
  if (isReadableJson(JSON.stringify(metadata))) return metadata
  const clean = cleanObject(metadata)
  return Object.fromEntries(
    Object.entries(clean).map(([key, value]) => [
      key,
      linkTypes.includes(key) && isJsonObject(value) ? repairLinks(value, metadata[key]) : value,
    ]),
  )
}

function repairLinks(links: JsonObject, before: Json | undefined): JsonObject {
  const intact = new Set(isJsonObject(before) ? Object.values(before) : [])
  return Object.fromEntries(
    Object.entries(links).map(([target, constraint]) => {
      const isKept = intact.has(constraint) || (typeof constraint === 'string' && isConstraint(constraint))
      return [target, isKept ? constraint : matchesNothing]
    }),
  )
}

import { isConstraint } from './constraint.ts'
import { cleanObject } from './manifest-fields.ts'
import { isJsonObject, type Json, type JsonObject } from './manifest-json.ts'

const linkTypes = ['require', 'require-dev', 'conflict', 'replace', 'provide']
/** A branch that no package has. A version that requires it is never chosen, and does not break other versions. */
const matchesNothing = 'dev-unreadable'

/** JSON.stringify escapes lone surrogates, but no other letters. An escape follows an even number of backslashes. */
const unreadable = /(?<!\\)(?:\\\\)*\\u(?:00|d[89a-f])|[\u007f-\u009f\p{Bidi_C}\u2028\u2029]/u

/** Returns whether JSON text is free of characters that make Composer refuse a whole document (`repairMetadata`). */
export function isReadableJson(text: string): boolean {
  return !unreadable.test(text)
}

/**
 * Repairs stored metadata for publishing. Earlier releases accepted characters that break a whole document. They are
 * removed, and a constraint that becomes invalid matches nothing.
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

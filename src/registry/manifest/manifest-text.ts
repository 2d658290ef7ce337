import { cleanLine, cleanText } from '../../domain/plain-text.ts'
import { isJsonObject, type Json, type JsonObject } from './manifest-json.ts'

/** Longer URLs are dropped. */
const maxUrlLength = 2048

/** JSON whose every text is clean, with tabs and line ends kept. A key `__proto__` goes, as a trap for readers. */
export function cleanJson(value: Json): Json {
  if (typeof value === 'string') return cleanText(value)
  if (Array.isArray(value)) return value.map(cleanJson)
  return isJsonObject(value) ? cleanObject(value) : value
}

/** `cleanJson` for an object. */
export function cleanObject(object: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(object)
      .map(([key, value]) => [cleanLine(key), cleanJson(value)] as const)
      .filter(([key]) => key !== '__proto__'),
  )
}

/** A URL of one of the schemes, cleaned; undefined for anything else. */
export function cleanUrl(value: Json | undefined, schemes = 'https?'): string | undefined {
  if (typeof value !== 'string' || value.length > maxUrlLength) return undefined
  const url = cleanLine(value)
  return new RegExp(`^(?:${schemes})://[^\\s"'<>\\\\/?#][^\\s"'<>\\\\]*$`, 'i').test(url) ? url : undefined
}

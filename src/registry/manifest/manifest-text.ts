import { isJsonObject, type Json, type JsonObject } from './manifest-json.ts'

/** Longer URLs are dropped. */
const maxUrlLength = 2048

/**
 * A text on one line, without what a terminal would obey (escape sequences, control characters) and what would
 * show it in another order than it is read (bidirectional overrides, half surrogates).
 */
export function cleanLine(text: string): string {
  return clean(text.replace(/[\t\n\v\f\r]+/g, ' ')).trim()
}

/** Whether a text can be published as it is. */
export function isClean(text: string): boolean {
  return clean(text) === text && !/[\t\n]/.test(text)
}

/** JSON whose every text is clean, with tabs and line ends kept. A key `__proto__` goes, as a trap for readers. */
export function cleanJson(value: Json): Json {
  if (typeof value === 'string') return clean(value)
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

function clean(text: string): string {
  // A control character takes the escape sequence along that it may have begun.
  return text
    .replace(/(?![\t\n])\p{Cc}(?:\[[0-?]*[ -/]*[@-~])?/gu, '')
    .replace(/[\p{Cs}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu, '')
}

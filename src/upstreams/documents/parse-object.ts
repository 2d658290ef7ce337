import type { JsonObject } from '../../composer/manifest-json.ts'
import { UpstreamError } from '../client/upstream-error.ts'

/**
 * The maximum number of values in a document. An empty object has two bytes, but JSON.parse needs a hundred bytes and a
 * microsecond for it.
 */
const maxValues = 500_000

const [comma, brace, bracket, closeBrace, closeBracket, quote, backslash, space] = Array.from(
  ',{[}]"\\ ',
  (character) => character.charCodeAt(0),
)

/** Parses a JSON object of an upstream. Throws `UpstreamError` for anything else, such as an error page in HTML. */
export function parseObject(bytes: Uint8Array, what: string): JsonObject {
  if (countValues(bytes) > maxValues)
    throw new UpstreamError(`${what} of the upstream has more than ${maxValues} values`)
  let content: unknown
  try {
    content = JSON.parse(textOf(bytes))
  } catch {
    throw new UpstreamError(`${what} of the upstream is not JSON`)
  }
  if (typeof content === 'object' && content !== null && !Array.isArray(content)) return content as JsonObject
  throw new UpstreamError(`${what} of the upstream is not a JSON object`)
}

/** Returns bytes in UTF-8 as text. */
export function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString()
}

/** Counts the values of JSON without parsing it. A list or an object has one more value than it has commas, unless it is empty. */
function countValues(bytes: Uint8Array): number {
  let values = 1
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at]
    if (byte === quote) at = endOfString(bytes, at)
    else if (byte === comma) values += 1
    else if (byte === brace || byte === bracket) {
      while ((bytes[at + 1] ?? 0x7f) <= (space as number)) at += 1
      if (bytes[at + 1] !== closeBrace && bytes[at + 1] !== closeBracket) values += 1
    }
  }
  return values
}

function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1
  while (at < bytes.length && bytes[at] !== quote) at += bytes[at] === backslash ? 2 : 1
  return at
}

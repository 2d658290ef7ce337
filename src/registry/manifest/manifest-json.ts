import { refuseLargeManifest, refuseManifest } from './manifest-refusal.ts'

/** What JSON can say. */
export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json
}

/** Whether a value is what JSON calls an object. */
export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Larger files are refused. */
export const maxManifestBytes = 1024 * 1024
/** Deeper nesting is refused. Composer itself reads 512 levels; nobody writes more than a dozen. */
export const maxManifestDepth = 64

/** Reads composer.json. Throws errcode 3, or 8 when it is too large, saying what is wrong with the file. */
export function parseManifest(bytes: Uint8Array): JsonObject {
  if (bytes.byteLength > maxManifestBytes) refuseLargeManifest(`is larger than ${maxManifestBytes} bytes`)
  const text = decode(bytes)
  const value = parse(text)
  refuseAmbiguity(text)
  if (!isJsonObject(value)) refuseManifest('', 'must be a JSON object')
  return value
}

function decode(bytes: Uint8Array): string {
  try {
    // A byte order mark is kept, and then refused by JSON.parse as PHP's json_decode refuses it.
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    refuseManifest('', 'is not UTF-8')
  }
}

function parse(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    refuseManifest('', 'is not valid JSON')
  }
}

/**
 * Walks the tokens of valid JSON: nesting has a limit, and a key may stand only once in an object, since readers
 * differ in which of two they take.
 */
function refuseAmbiguity(text: string): void {
  const open: Set<string>[] = []
  for (const [token] of text.matchAll(/[{}[\]]|"[^"\\]*(?:\\.[^"\\]*)*"(?:[ \t\n\r]*:)?/g)) {
    if (token === '{' || token === '[') {
      if (open.push(new Set()) > maxManifestDepth)
        refuseManifest('', `nests deeper than ${maxManifestDepth} levels`)
    } else if (token === '}' || token === ']') {
      open.pop()
    } else if (token.endsWith(':')) {
      const key = JSON.parse(token.slice(0, -1)) as string
      if (open.at(-1)?.has(key)) refuseManifest(key, 'stands twice in the same object')
      open.at(-1)?.add(key)
    }
  }
}

import { errcode, Refusal } from '../domain/refusal.ts'

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json
}

/** Returns whether a value is a JSON object. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The keys of composer.json with links to other packages. */
export const linkTypes = ['require', 'require-dev', 'conflict', 'replace', 'provide']

/** The maximum size of a composer.json in bytes. Parsing this size takes 50 ms, and blocks everything else. */
export const maxManifestBytes = 512 * 1024
/** The maximum nesting depth. Composer itself reads 512 levels, but nobody writes more than a dozen. */
export const maxManifestDepth = 64
/** The number of repeated keys that warnings name. */
const maxNamedKeys = 10

/**
 * Parses composer.json. `repeatedKeys` has the keys that an object has twice. The last value is used, like in PHP.
 * Throws errcode 3 with the mistake, or errcode 8 for a file that is too large.
 */
export function parseManifest(bytes: Uint8Array): { manifest: JsonObject; repeatedKeys: string[] } {
  if (bytes.byteLength > maxManifestBytes) refuseLargeManifest(`is larger than ${maxManifestBytes} bytes`)
  const text = decode(bytes)
  const manifest = parse(text)
  const repeatedKeys = findRepeatedKeys(text)
  if (!isJsonObject(manifest)) refuseManifest('', 'must be a JSON object')
  return { manifest, repeatedKeys }
}

/**
 * Throws the error for a composer.json. `field` is a path such as `require.acme/other`, or '' for the whole file.
 * `wrong` continues the sentence, such as "must be a string". `details` are other mistakes.
 */
export function refuseManifest(field: string, wrong: string, details: readonly string[] = []): never {
  throw new Refusal(errcode.invalidArgument, mistakeIn(field, wrong), { details })
}

/** Returns the mistake in a field as a sentence. */
export function mistakeIn(field: string, wrong: string): string {
  return `${field === '' ? 'composer.json' : `composer.json: ${shown(field)}`} ${wrong}`
}

/** Throws the error for a composer.json that is too large: errcode 8, HTTP 413. */
export function refuseLargeManifest(wrong: string): never {
  throw new Refusal(errcode.resourceExhausted, `composer.json ${wrong}`, { status: 413 })
}

/** Returns uploaded text in a form for a message: at most 100 characters, without control characters. */
export function shown(text: string): string {
  const characters = Array.from(text.slice(0, 200).replace(/[^\p{L}\p{N}\p{P}\p{S} ]/gu, '?'))
  return characters.length > 100 ? `${characters.slice(0, 99).join('')}…` : characters.join('')
}

function decode(bytes: Uint8Array): string {
  try {
    // Keep a byte order mark, so that JSON.parse refuses it. PHP's json_decode refuses it too.
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
 * Scans valid JSON. Returns the first keys that an object has twice, and refuses deep nesting. It uses no regular
 * expression, because that would take ten times as long: 350 ms for 1 MiB.
 */
function findRepeatedKeys(text: string): string[] {
  // The keys of an object, or null for a list.
  const open: (Set<string> | null)[] = []
  const repeated = new Set<string>()
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === openBrace || code === openBracket) {
      if (open.push(code === openBrace ? new Set() : null) > maxManifestDepth)
        refuseManifest('', `nests deeper than ${maxManifestDepth} levels`)
    } else if (code === closeBrace || code === closeBracket) {
      open.pop()
    } else if (code === quote) {
      const end = endOfString(text, at)
      const keys = open.at(-1)
      if (keys && isBeforeColon(text, end)) {
        const raw = text.slice(at + 1, end)
        const key = raw.includes('\\') ? (JSON.parse(`"${raw}"`) as string) : raw
        if (keys.has(key) && repeated.size < maxNamedKeys) repeated.add(key)
        keys.add(key)
      }
      at = end
    }
  }
  return [...repeated]
}

const [openBrace, closeBrace, openBracket, closeBracket, quote, backslash, colon, space] = Array.from(
  '{}[]"\\: ',
  (character) => character.charCodeAt(0),
)

/** Returns the position of the closing quote of a string: the first quote after an even number of backslashes. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === backslash) backslashes += 1
    if (backslashes % 2 === 0) return end
  }
}

function isBeforeColon(text: string, end: number): boolean {
  let at = end + 1
  // The space has the highest code of JSON's white space.
  while (text.charCodeAt(at) <= (space as number)) at += 1
  return text.charCodeAt(at) === colon
}

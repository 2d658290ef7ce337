import { errcode, RegistryError } from '../errors.ts'

/** What JSON can say. */
export type Json = null | boolean | number | string | Json[] | JsonObject
export interface JsonObject {
  [key: string]: Json
}

/** Returns whether a value is what JSON calls an object. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Larger files are refused: parsing one takes 50 ms, in which nothing else runs. */
export const maxManifestBytes = 512 * 1024
/** Deeper nesting is refused. Composer itself reads 512 levels; nobody writes more than a dozen. */
export const maxManifestDepth = 64
/** So many repeated keys are named in warnings. */
const maxNamedKeys = 10

/**
 * Parses composer.json. `repeatedKeys` names the keys that an object has twice: the last value counts, as in PHP.
 * Throws errcode 3, or 8 for a file that is too large, saying what is wrong.
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
 * Refuses a composer.json. `field` is a path such as `require.acme/other`, or '' for the file as a whole; `wrong` goes
 * on from there. `details` are further mistakes.
 */
export function refuseManifest(field: string, wrong: string, details: readonly string[] = []): never {
  throw new RegistryError(errcode.invalidArgument, mistakeIn(field, wrong), { details })
}

/** What is wrong with a field, as a sentence. */
export function mistakeIn(field: string, wrong: string): string {
  return `${field === '' ? 'composer.json' : `composer.json: ${shown(field)}`} ${wrong}`
}

/** Refuses a composer.json for its size: errcode 8, HTTP 413. */
export function refuseLargeManifest(wrong: string): never {
  throw new RegistryError(errcode.resourceExhausted, `composer.json ${wrong}`, { status: 413 })
}

/** A foreign text for a message: at most 100 characters, and none that a terminal would obey. */
export function shown(text: string): string {
  const characters = Array.from(text.slice(0, 200).replace(/[^\p{L}\p{N}\p{P}\p{S} ]/gu, '?'))
  return characters.length > 100 ? `${characters.slice(0, 99).join('')}…` : characters.join('')
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
 * Walks through valid JSON. Returns the first keys that an object has twice, and refuses deep nesting. By hand, since a
 * regular expression takes ten times as long: 350 ms for 1 MiB.
 */
function findRepeatedKeys(text: string): string[] {
  // Of an object its keys, of a list null.
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

/** Where the string that starts at `start` has its closing quote: the first after an even number of backslashes. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); ; end = text.indexOf('"', end + 1)) {
    let backslashes = 0
    while (text.charCodeAt(end - 1 - backslashes) === backslash) backslashes += 1
    if (backslashes % 2 === 0) return end
  }
}

function isBeforeColon(text: string, end: number): boolean {
  let at = end + 1
  // All white space of JSON is at most a space.
  while (text.charCodeAt(at) <= (space as number)) at += 1
  return text.charCodeAt(at) === colon
}

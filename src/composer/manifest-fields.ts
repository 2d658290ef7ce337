import * as z from 'zod'
import { cleanLine, cleanText, isPlainText } from '../domain/plain-text.ts'
import { isConstraint } from './constraint.ts'
import { isJsonObject, type Json, type JsonObject, linkTypes } from './manifest-json.ts'

/*
 * The types of composer.json's fields. Fields that Composer acts on must be exact: they are published unchanged, or
 * refused. Other fields only describe the package: they are cleaned, and values that cannot be shown are removed.
 */

/** A text that Composer acts on. Control characters are refused. */
export const exactText = z
  .string('must be a string')
  .refine(isPlainText, 'must not contain control characters')

/** A list of texts that Composer acts on. For an object, its values are the list. */
export const exactTextList = z
  .preprocess(withKeys, z.record(z.string(), exactText, 'must be a list of strings'))
  .transform((texts) => Object.values(texts))

/** A text that is cleaned to one line. */
export const line = z.string().transform(cleanLine)

/** An email address. */
export const email = line.refine((text) => /^[^\s@<>]+@[^\s@<>]+$/.test(text))

/** Returns a schema for a URL with one of the schemes, of at most 2,048 characters. */
export function url(schemes = 'https?') {
  const shape = new RegExp(`^(?:${schemes})://[^\\s"'<>\\\\/?#][^\\s"'<>\\\\]*$`, 'i')
  return z
    .string()
    .max(2048)
    .transform(cleanLine)
    .refine((text) => shape.test(text))
}

/** Returns a schema that leaves out a value that does not match, instead of refusing the manifest. */
export function orNothing<Field extends z.ZodType>(field: Field) {
  return field.optional().catch(undefined)
}

/** Returns a schema that keeps the matching items of a list or an object. Any other value becomes an empty list. */
export function fitting<Item extends z.ZodType>(item: Item) {
  return z.preprocess(valuesOf, z.array(orNothing(item))).transform((items) => items.filter(saysSomething))
}

/** Any object. All its texts are cleaned, at every depth. */
export const cleanedObject = z
  .custom<JsonObject>(isJsonObject, 'must be an object')
  .transform((object) => cleanObject(object))

/** Returns the values of a list or an object. Returns no values for anything else. */
export function valuesOf(value: unknown): unknown[] {
  return typeof value === 'object' && value !== null ? Object.values(value) : []
}

/** Removes empty values: undefined, null, '', [] and {}. */
export function withoutEmpty(fields: Record<string, unknown>): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).filter((entry): entry is [string, Json] => saysSomething(entry[1])),
  )
}

/** Removes null and empty collections, because PHP reads `[]` and `{}` alike and Composer treats null as absent. */
export function withoutNothing(value: unknown): unknown {
  if (!isJsonObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).filter(([, member]) => member !== null && (member === '' || saysSomething(member))),
  )
}

/** Returns whether a value is present and not empty. */
export function saysSomething(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0
  if (typeof value === 'object' && value !== null) {
    for (const _ in value) return true
    return false
  }
  return value !== undefined && value !== null && value !== ''
}

/** Returns whether PHP converts a key to an integer. Such a key breaks Composer where Composer expects a string. */
export function isIntegerKey(key: string): boolean {
  return /^(?:0|-?[1-9]\d*)$/.test(key)
}

/** Returns whether a path leaves its directory. */
export function hasParentSegment(path: string): boolean {
  return path.split(/[/\\]/).includes('..')
}

/**
 * Cleans every text in an object, but keeps tabs and line feeds. Removes the key `__proto__`, which attacks programs
 * that read the object.
 */
function cleanObject(object: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(object)
      .map(([key, value]) => [cleanLine(key), cleanJson(value)] as const)
      .filter(([key]) => key !== '__proto__'),
  )
}

/** Returns whether cleaning removes more than tabs and line ends from a text in the value. */
export function losesCharacters(value: Json | undefined): boolean {
  if (typeof value === 'string') return !isPlainText(value.replace(/[\t\n\v\f\r]/g, ''))
  if (typeof value !== 'object' || value === null) return false
  return Object.entries(value).some(([key, member]) => !isPlainText(key) || losesCharacters(member))
}

function cleanJson(value: Json): Json {
  if (typeof value === 'string') return cleanText(value)
  if (Array.isArray(value)) return value.map(cleanJson)
  return isJsonObject(value) ? cleanObject(value) : value
}

function withKeys(value: unknown): unknown {
  return Array.isArray(value) ? Object.fromEntries(value.entries()) : value
}

/** A branch that no package has. A version that requires it is never chosen, and does not break other versions. */
const matchesNothing = 'dev-unreadable'

/**
 * Matches a character in JSON text that `repairMetadata` removes. JSON.stringify writes lone surrogates and most
 * control characters as `\u` escapes. An even number of backslashes may precede an escape.
 */
const unreadable = /(?<!\\)(?:\\\\)*\\u(?:00|d[89a-f])|[\u007f-\u009f\p{Bidi_C}\u2028\u2029]/u

/** Returns whether JSON text is free of the characters that `repairMetadata` removes. */
export function isReadableJson(text: string): boolean {
  return !unreadable.test(text)
}

/**
 * Repairs stored metadata for publishing. Earlier releases accepted characters that make Composer refuse a whole
 * document. This function removes them. It replaces a constraint that becomes invalid by one that matches nothing.
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

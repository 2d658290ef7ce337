import { isPlainText } from '../../domain/plain-text.ts'
import { isJsonObject, type Json, type JsonObject } from './manifest-json.ts'
import { refuseManifest } from './manifest-refusal.ts'

/** Takes note of what is accepted though it will not do what its author means. */
export type Warn = (warning: string) => void

/**
 * A field that must be an object. Undefined when it is absent, null or empty: to PHP `[]` and `{}` are one.
 * Throws when it is anything else, for a reader in Composer would.
 */
export function readObject(parent: JsonObject, key: string, field = key): JsonObject | undefined {
  const value = parent[key] ?? []
  if (isEmptyCollection(value)) return undefined
  return isJsonObject(value) ? value : refuseManifest(field, 'must be an object')
}

/** A field that must be a text. Undefined when it is absent, null or ''. */
export function readText(parent: JsonObject, key: string, field = key): string | undefined {
  const value = parent[key] ?? ''
  return readCleanText(value, field) || undefined
}

/** A field that must be a list of texts, or an object of them, whose keys mean nothing. */
export function readTexts(parent: JsonObject, key: string, field = key): string[] | undefined {
  const value = parent[key] ?? []
  if (typeof value !== 'object') refuseManifest(field, 'must be a list of strings')
  const texts = Object.entries(value).map(([item, text]) => readCleanText(text, `${field}.${item}`))
  return texts.length === 0 ? undefined : texts
}

/** A text on which installing depends, so it is refused rather than cleaned. */
export function readCleanText(value: Json, field: string): string {
  if (typeof value !== 'string') refuseManifest(field, 'must be a string')
  if (!isPlainText(value)) refuseManifest(field, 'must not contain control characters')
  return value
}

/** Whether PHP would make an integer of a key, and so break Composer where it awaits a string. */
export function isIntegerKey(key: string): boolean {
  return /^(?:0|-?[1-9]\d*)$/.test(key)
}

/** The entries of a list or an object; none of anything else. */
export function entriesOf(value: Json | undefined): [string, Json][] {
  return typeof value === 'object' && value !== null ? Object.entries(value) : []
}

/** Leaves out what says nothing: undefined, null, '', [] and {}. */
export function withoutEmpty(fields: Record<string, Json | undefined>): JsonObject {
  return Object.fromEntries(
    Object.entries(fields).filter((entry): entry is [string, Json] => saysSomething(entry[1])),
  )
}

/** Whether a field is there, and neither null nor empty. */
export function saysSomething(value: Json | undefined): boolean {
  return value !== undefined && value !== null && value !== '' && !isEmptyCollection(value)
}

function isEmptyCollection(value: Json): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

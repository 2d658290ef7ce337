import { isConstraint } from '../../composer/constraint.ts'
import { quarantineList } from '../../composer/filter-list.ts'
import { isJsonObject, type Json, type JsonObject } from '../../composer/manifest-json.ts'
import { isPackageName } from '../../composer/package-name.ts'
import { UpstreamError } from '../client/upstream-error.ts'
import { parseObject } from './parse-object.ts'

/** After more changes than this, all documents are stale. */
const maxChanges = 20_000

/** The changes of a feed, in Packagist's format. */
export interface FeedChanges {
  /** The position for the next request. */
  timestamp: string
  /** Whether all documents are stale. */
  isResync: boolean
  documents: { packageName: string; isDev: boolean }[]
}

/** Parses a change feed. Throws `UpstreamError` for another format. */
export function parseChanges(bytes: Uint8Array): FeedChanges {
  const { actions, timestamp } = parseObject(bytes, 'the change feed')
  if (!Array.isArray(actions) || !isTimestamp(timestamp))
    throw new UpstreamError('the change feed has an unknown format')
  const named = actions.filter(isJsonObject)
  const documents = named.flatMap(documentOf)
  const isResync = named.some(({ type }) => type === 'resync') || documents.length > maxChanges
  return { timestamp: String(timestamp), isResync, documents: isResync ? [] : documents }
}

/** Returns the first timestamp of a change feed. A request without `since` gets it in a response with status 400. */
export function parseTimestamp(bytes: Uint8Array): string {
  const { timestamp } = parseObject(bytes, 'the change feed')
  if (!isTimestamp(timestamp)) throw new UpstreamError('the change feed has no timestamp')
  return String(timestamp)
}

/**
 * Returns the document of a change. `vendor/package~dev` is the document of development versions. None for a name that no
 * package can have.
 */
function documentOf({ type, package: name }: JsonObject): { packageName: string; isDev: boolean }[] {
  if ((type !== 'update' && type !== 'delete') || typeof name !== 'string') return []
  const packageName = name.toLowerCase().replace(/~dev$/, '')
  return isPackageName(packageName) ? [{ packageName, isDev: name.endsWith('~dev') }] : []
}

function isTimestamp(value: unknown): value is number | string {
  return /^\d{1,16}$/.test(String(value))
}

/**
 * Parses a summary of versions that are flagged as malware. Returns a JSON list of names with their constraints. Null for
 * another format.
 */
export function parseMalwareList(bytes: Uint8Array): Uint8Array | null {
  const listed = listedMalware(parseObject(bytes, 'the filter summary'))
  if (listed === null) return null
  const flags = Object.entries(listed).filter(
    ([name, constraint]) => isPackageName(name) && typeof constraint === 'string' && isConstraint(constraint),
  )
  return Buffer.from(JSON.stringify(flags))
}

/** Returns the malware list of a summary. Null for another format. PHP writes an empty object as `[]`. */
function listedMalware({ filter }: JsonObject): JsonObject | null {
  if (isEmpty(filter)) return {}
  const listed = isJsonObject(filter) ? filter[quarantineList] : undefined
  if (isEmpty(listed)) return {}
  return isJsonObject(listed) ? listed : null
}

function isEmpty(value: Json | undefined): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0
}

import { compareNormalized, normalizeVersion } from '../../composer/composer-version.ts'
import { isConstraint, maxConstraintLength } from '../../composer/constraint.ts'
import { isJsonObject, type Json, type JsonObject } from '../../composer/manifest-json.ts'
import { isPackageName, toLowerAscii } from '../../composer/package-name.ts'
import { cleanLine, shortenText } from '../../domain/plain-text.ts'
import { readConstraint } from '../../upstreams/documents/satisfies.ts'
import type { Severity } from '../tables/package-warnings.ts'
import { cvssSeverity } from './cvss.ts'

/** The maximum size of a file in bytes. */
export const maxOsvBytes = 16 * 1024 * 1024
const maxRecords = 10_000
const maxEntries = 20_000
const maxVersions = 5_000
const maxAliases = 20
const maxTitle = 255
const idShape = /^[A-Za-z0-9][\w:.-]{0,99}$/

/** What a record of OSV says about one package. */
export interface OsvEntry {
  id: string
  /** In milliseconds since 1970, as the other times. */
  modifiedAt: number
  publishedAt: number | null
  isWithdrawn: boolean
  /** Null when the record names no package of Composer. */
  packageName: string | null
  title: string
  /** A Composer constraint. */
  affectedVersions: string
  cve: string | null
  link: string | null
  severity: Severity | null
  /** Other ids, without the CVE. */
  aliases: string[]
  /** Why it cannot be an advisory here. Null when it can. */
  problem: string | null
}

/** A text in which no record can be read, with a sentence for its sender. */
export class OsvError extends Error {
  override readonly name = 'OsvError'
}

/**
 * Reads records in OSV form: one, a JSON array of them, or one on each line. Returns an entry for each package of a record.
 * Throws OsvError. It runs in a thread, because a stranger sends the text.
 */
export function readOsv(bytes: Uint8Array): OsvEntry[] {
  const records = parse(bytes)
  if (records.length > maxRecords) throw new OsvError(`the file has more than ${maxRecords} records`)
  const entries = records.flatMap(readRecord)
  if (entries.length > maxEntries) throw new OsvError(`the records name more than ${maxEntries} packages`)
  return entries
}

function parse(bytes: Uint8Array): JsonObject[] {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).trim()
  } catch {
    throw new OsvError('the file must be JSON in UTF-8')
  }
  if (text === '') throw new OsvError('the file is empty')
  const whole = parseJson(text)
  const list =
    whole === undefined ? text.split(/\r?\n/).flatMap(parseLine) : Array.isArray(whole) ? whole : [whole]
  const wrong = list.findIndex((record) => !isJsonObject(record))
  if (wrong >= 0) throw new OsvError(`record ${wrong + 1} of the file is no JSON object`)
  return list as JsonObject[]
}

function parseLine(line: string, index: number): Json[] {
  if (line.trim() === '') return []
  const record = parseJson(line)
  if (record === undefined)
    throw new OsvError(
      `the file must be a JSON object, an array, or one object on each line: line ${index + 1} is no JSON`,
    )
  return [record]
}

function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}

function readRecord(record: JsonObject): OsvEntry[] {
  const { id, modified, published, withdrawn, affected } = record
  const names = [id, ...listOf(record['aliases'])].filter(
    (name): name is string => typeof name === 'string' && idShape.test(name),
  )
  const cve = names.find((name) => /^CVE-\d{4}-\d{4,19}$/.test(name)) ?? null
  const modifiedAt = timeOf(modified)
  const entry = {
    id: lineOf(typeof id === 'string' && id !== '' ? id : 'a record without an id', 100),
    modifiedAt: modifiedAt ?? 0,
    publishedAt: timeOf(published),
    isWithdrawn: withdrawn !== undefined && withdrawn !== null,
    title: titleOf(record),
    affectedVersions: '',
    cve,
    link: linkOf(record),
    severity: severityOf(record),
    aliases: [...new Set(names)].filter((name) => name !== id && name !== cve).slice(0, maxAliases),
  }
  const refuse = (problem: string) => [{ ...entry, packageName: null, problem }]
  if (typeof id !== 'string' || !idShape.test(id))
    return refuse('it needs an id of letters, digits and : . _ -')
  if (modifiedAt === null) return refuse('it needs the time of its last change in "modified"')
  const packages = new Map<string, JsonObject[]>()
  for (const part of listOf(affected).filter(isJsonObject)) {
    const name = composerNameOf(part)
    if (name === null) continue
    const parts = packages.get(name)
    if (parts) parts.push(part)
    else packages.set(name, [part])
  }
  if (packages.size === 0) return refuse('it names no package of the ecosystem Packagist')
  return [...packages].map(([packageName, parts]) => ({ ...entry, packageName, ...constraintOf(parts) }))
}

function composerNameOf({ package: about }: JsonObject): string | null {
  if (!isJsonObject(about)) return null
  const { ecosystem, name } = about
  if (typeof ecosystem !== 'string' || typeof name !== 'string' || !/^Packagist(?::|$)/.test(ecosystem))
    return null
  const lower = toLowerAscii(name)
  return isPackageName(lower) ? lower : null
}

/** Returns the constraint of the parts of a record that are about one package. */
function constraintOf(parts: readonly JsonObject[]): { affectedVersions: string; problem: string | null } {
  const refuse = (problem: string) => ({ affectedVersions: '', problem })
  const alternatives: string[] = []
  for (const part of parts) {
    const { database_specific: own } = part
    const given = isJsonObject(own) ? own['affected_versions'] : undefined
    if (typeof given === 'string' && isConstraint(given)) {
      alternatives.push(given)
      continue
    }
    const ranges = listOf(part['ranges'])
      .filter(isJsonObject)
      .filter(({ type }) => type !== 'GIT')
    for (const range of ranges) {
      const found = alternativesOf(range)
      if (found === null) return refuse('Composer cannot read the versions of its ranges')
      alternatives.push(...found)
    }
    const versions = listOf(part['versions']).filter((version) => typeof version === 'string')
    if (versions.length > maxVersions) return refuse(`it lists more than ${maxVersions} versions`)
    const isInRanges = alternatives.length > 0 ? readConstraint(alternatives.join('||')) : () => false
    for (const version of versions) {
      const normalized = normalizeVersion(version)
      if (normalized !== null && !isInRanges(normalized)) alternatives.push(version)
    }
  }
  const affectedVersions = [...new Set(alternatives)].join('||')
  if (affectedVersions === '') return refuse('it names no affected versions')
  if (affectedVersions.length > maxConstraintLength)
    return refuse(`its affected versions need more than ${maxConstraintLength} characters`)
  if (!isConstraint(affectedVersions)) return refuse('Composer cannot read the affected versions')
  return { affectedVersions, problem: null }
}

interface RangeEvent {
  kind: 'introduced' | 'fixed' | 'last_affected'
  version: string
  normalized: string
}

/** Returns the constraints of a range: those of its events in the order of their versions. Null for an unreadable version. */
function alternativesOf(range: JsonObject): string[] | null {
  const events: RangeEvent[] = []
  for (const event of listOf(range['events']).filter(isJsonObject)) {
    for (const [name, value] of Object.entries(event)) {
      if (
        !['introduced', 'fixed', 'last_affected', 'limit'].includes(name) ||
        (name === 'limit' && value === '*')
      )
        continue
      const kind = name === 'limit' ? 'fixed' : (name as RangeEvent['kind'])
      const version = typeof value === 'string' ? value : JSON.stringify(value)
      const isFirst = kind === 'introduced' && version === '0'
      const normalized = isFirst ? '' : normalizeVersion(version)
      if (normalized === null || normalized.startsWith('dev-')) return null
      events.push({ kind, version, normalized })
    }
  }
  events.sort((one, other) =>
    one.normalized === ''
      ? -1
      : other.normalized === ''
        ? 1
        : compareNormalized(one.normalized, other.normalized),
  )
  const found: string[] = []
  let open: RangeEvent | null = null
  const close = (start: RangeEvent, end: string) =>
    found.push([start.normalized === '' ? '' : `>=${start.version}`, end].filter(Boolean).join(',') || '*')
  for (const event of events) {
    if (event.kind === 'introduced') open ??= event
    else if (open !== null) {
      close(open, `${event.kind === 'fixed' ? '<' : '<='}${event.version}`)
      open = null
    }
  }
  if (open !== null) close(open, '')
  return found
}

function titleOf({ summary, details, id }: JsonObject): string {
  const [title = ''] = [summary, details, id]
    .filter((text): text is string => typeof text === 'string')
    .map((text) => lineOf(text.trim().split('\n', 1)[0] ?? '', maxTitle))
    .filter((text) => text !== '')
  return title
}

const referenceTypes = ['ADVISORY', 'WEB', 'ARTICLE', 'REPORT', 'FIX']

function linkOf(record: JsonObject): string | null {
  const links = listOf(record['references'])
    .filter(isJsonObject)
    .flatMap(({ type, url }) =>
      typeof url === 'string' && url.length <= 2000 && /^https?:\/\/[!-~]+$/.test(url)
        ? [{ url, rank: linkRank(type) }]
        : [],
    )
  return links.toSorted((one, other) => one.rank - other.rank)[0]?.url ?? null
}

/** Other types come last. */
function linkRank(type: Json | undefined): number {
  const rank = referenceTypes.indexOf(type as string)
  return rank < 0 ? referenceTypes.length : rank
}

const severityWords: Record<string, Severity> = {
  LOW: 'low',
  MODERATE: 'medium',
  MEDIUM: 'medium',
  HIGH: 'high',
  CRITICAL: 'critical',
}

/** The word of the database, or the one for its CVSS vector. */
function severityOf(record: JsonObject): Severity | null {
  const { database_specific: own } = record
  const word = isJsonObject(own) ? own['severity'] : undefined
  const named = typeof word === 'string' ? severityWords[word.toUpperCase()] : undefined
  if (named) return named
  const parts = listOf(record['affected']).filter(isJsonObject)
  const scores = [record, ...parts].flatMap((part) => listOf(part['severity'])).filter(isJsonObject)
  for (const { type, score } of scores)
    if (type === 'CVSS_V3' && typeof score === 'string') return cvssSeverity(score)
  return null
}

function timeOf(value: Json | undefined): number | null {
  const time =
    typeof value === 'string' && /^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/.test(value) ? Date.parse(value) : Number.NaN
  return Number.isNaN(time) ? null : time
}

function listOf(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : []
}

/** The ellipsis is one of the characters. */
function lineOf(text: string, maxCharacters: number): string {
  return shortenText(cleanLine(text), maxCharacters - 1)
}

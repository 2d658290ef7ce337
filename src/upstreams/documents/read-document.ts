import { createHash } from 'node:crypto'
import { maxVersionLength, normalizeVersion, stabilityOf } from '../../composer/composer-version.ts'
import { isConstraint } from '../../composer/constraint.ts'
import { quarantineList } from '../../composer/filter-list.ts'
import { isJsonObject, type Json, type JsonObject } from '../../composer/manifest-json.ts'
import { toLowerAscii } from '../../composer/package-name.ts'
import { usableSource } from '../../composer/package-source.ts'
import { cleanLine, isPlainText } from '../../domain/plain-text.ts'
import { UpstreamError } from '../client/upstream-error.ts'
import { versionList } from '../client/upstream-root.ts'
import { isReadable } from './entry-keys.ts'

/** A valid version of an upstream. */
export interface UpstreamVersion {
  /** The p2 entry of the upstream, without keys that only a registry may set. */
  entry: JsonObject
  version: string
  normalized: string
  /** Null for a metapackage, which has no archive. */
  dist: UpstreamDist | null
  /** The publication time according to the upstream. Null when it is missing. */
  publishedAt: string | null
}

/** The archive of a version at an upstream. */
export interface UpstreamDist {
  type: string
  url: string
  shasum: string | null
  /** The version in the URL of this registry. */
  versionPath: string
  /** The reference in the URL of this registry, in lower-case hex. */
  reference: string
}

/** A constraint that flags versions as malware. */
export interface MalwareFlag {
  constraint: string
  reason: string
}

/** A version without an archive. The upstream offers it only as source code. */
export interface SourceVersion {
  version: string
  normalized: string
}

/** The content of a package's document at an upstream. */
export interface UpstreamContent {
  versions: UpstreamVersion[]
  /** The versions that were left out because they have no archive. Undefined in rows of earlier releases. */
  sourceOnly?: SourceVersion[]
  /** The document's other keys, such as `security-advisories` and `filter`. */
  extra: JsonObject
}

/**
 * Bounds for a document when its entries are expanded. A minified document of a few bytes can expand to many gigabytes,
 * and a list of short constraints can take hours to compare with many versions. Nothing is expanded before the bounds
 * are checked.
 */
const maxVersions = 100_000
const maxExpandedCharacters = 16 * 1024 * 1024
/** A value of two characters needs a hundred bytes of memory. */
const maxExpandedValues = 1_000_000
const maxComparedCharacters = 20_000_000
/** The size of the flags of malware. They are stored with the package, and shown. */
const maxFlagCharacters = 256 * 1024
/** How many versions that were left out are listed. */
const maxDropped = 1000
/** PHP's json_decode refuses a whole document with more than 512 levels. */
const maxLevels = 400

/** Archive types that Composer downloads. The type `path` and others would read the disk of the client. */
const distTypes = ['zip', 'tar', 'gzip', 'xz', 'rar']
/** Keys that only a registry may set. */
const removedKeys = ['notification-url', 'transport-options', 'installation-source']

/** A document whose values are checked, but whose entries are not expanded yet. */
export interface UnexpandedDocument {
  packageName: string
  isMinified: boolean
  /** The given keys of each entry. Null stands for an entry that is not an object. */
  entries: (readonly GivenKey[] | null)[]
  extra: JsonObject
  /** The size of the expanded document. */
  characters: number
}

/** A key of an entry. Null removes a key that the previous entry has. */
type GivenKey = readonly [string, CheckedValue | null]

/** A value of an entry. The entries of a minified document share it, so it is checked only once. */
interface CheckedValue {
  value: Json
  characters: number
  values: number
  /** The reason why the version must be left out. */
  wrong: string | null
}

/**
 * Reads a package's document from an upstream. Expands minified entries and checks each version. A version that
 * Composer cannot read would break every project that requires the package. So it is left out, and `dropped` has the
 * reason. Returns null when the document does not contain the package. For an upstream that has all versions in one
 * list, `part` keeps only development versions, or only the others. Throws `UpstreamError` for a document that is too
 * large, or that is not Composer metadata, such as a JSON error with status 200.
 */
export function readDocument(
  document: JsonObject,
  packageName: string,
  part: PartWanted = 'all',
): UpstreamDocument | null {
  const checked = readUnexpanded(document, packageName)
  return checked && expandDocument(checked, part)
}

export type PartWanted = 'dev' | 'main' | 'all'

/** The valid versions of a document, and the reasons why others were left out. */
export interface UpstreamDocument {
  content: UpstreamContent
  dropped: string[]
}

/** Checks the values and the bounds of a document. It is the first part of `readDocument`, and expands nothing. */
export function readUnexpanded(document: JsonObject, packageName: string): UnexpandedDocument | null {
  const { packages, minified, ...extra } = document
  const all = entriesOf(packages, packageName)
  if (all === null) return null
  let [characters, values] = [0, 0]
  for (const [key, value] of Object.entries(extra)) {
    const text = jsonForPhp([key, value])
    if (text === null) {
      delete extra[key]
      continue
    }
    extra[key] = cleaned(value as Json, text)
    characters += text.length
    values += countValues(value as Json)
  }
  const listed = versionList(all) as Json[]
  if (listed.length > maxVersions)
    throw new UpstreamError(`the metadata of ${packageName} has more than ${maxVersions} versions`)
  const isMinified = minified === 'composer/2.0'
  const entries = listed.map((given) => (isJsonObject(given) ? checkEntry(given, isMinified) : null))
  for (const size of expandedSizes(entries, isMinified)) {
    characters += size.characters
    values += size.values
    if (characters > maxExpandedCharacters || values > maxExpandedValues)
      throw new UpstreamError(`the metadata of ${packageName} is too large when it is expanded`)
  }
  const comparedCharacters = listed.length * constraintCharacters(extra)
  const flagCharacters = JSON.stringify(malwareFlags(extra)).length
  if (comparedCharacters > maxComparedCharacters || flagCharacters > maxFlagCharacters)
    throw new UpstreamError(`the metadata of ${packageName} has too many advisories and flags`)
  return { packageName, isMinified, entries, extra, characters }
}

function checkEntry(given: JsonObject, isMinified: boolean): GivenKey[] {
  return Object.entries(given).map(([key, value]) => [
    key,
    isMinified && value === '__unset' ? null : checkValue(key, value),
  ])
}

/** Yields the sizes of the expanded entries. */
function* expandedSizes(
  entries: UnexpandedDocument['entries'],
  isMinified: boolean,
): Generator<{ characters: number; values: number }> {
  const current = new Map<string, CheckedValue>()
  let [characters, values] = [0, 0]
  for (const given of entries) {
    if (given === null) continue
    if (!isMinified) {
      current.clear()
      characters = 0
      values = 0
    }
    for (const [key, checked] of given) {
      const before = current.get(key)
      characters += (checked?.characters ?? 0) - (before?.characters ?? 0)
      values += (checked?.values ?? 0) - (before?.values ?? 0)
      if (checked === null) current.delete(key)
      else current.set(key, checked)
    }
    yield { characters, values }
  }
}

/** Expands the entries of a document and checks each version. It is the second part of `readDocument`. */
export function expandDocument(
  { packageName, isMinified, entries, extra }: UnexpandedDocument,
  part: PartWanted,
): UpstreamDocument {
  const versions: UpstreamVersion[] = []
  const sourceOnly: SourceVersion[] = []
  const dropped: string[] = []
  const isOfPart = (normalized: string) =>
    part === 'all' || (part === 'dev') === (stabilityOf(normalized) === 'dev')
  for (const entry of expandEntries(entries, isMinified)) {
    const read = readEntry(entry, packageName)
    if (typeof read === 'string') {
      if (dropped.length < maxDropped) dropped.push(read)
    } else if (!isOfPart(read.normalized)) {
      // The other document has it.
    } else if ('entry' in read) versions.push(read)
    else if (dropped.length < maxDropped) {
      dropped.push(`${read.version}: the upstream offers it only as source, without an archive`)
      sourceOnly.push(read)
    }
  }
  return { content: { versions, ...(sourceOnly.length > 0 && { sourceOnly }), extra }, dropped }
}

/**
 * Returns `packages.<name>` of a document. Null when the document has packages, but not this one. PHP writes an empty
 * object as `[]`.
 */
function entriesOf(packages: Json | undefined, packageName: string): Json[] | JsonObject | null {
  const isList = Array.isArray(packages)
  if (!isList && !isJsonObject(packages))
    throw new UpstreamError(`the metadata of ${packageName} has no packages`)
  const listed = !isList && Object.hasOwn(packages, packageName) ? packages[packageName] : null
  // Composer tests the name with `isset`, so null means that the package is missing.
  if (listed === null || listed === undefined) return null
  if (typeof listed === 'object') return listed
  throw new UpstreamError(`the metadata of ${packageName} has no list of versions`)
}

/** An entry of a document with all its keys. */
interface ExpandedEntry {
  entry: JsonObject
  wrong: string | null
}

/**
 * Yields the entries of a document. With `isMinified`, it expands them (composer/metadata-minifier): each entry inherits
 * the keys of the previous one. Null stands for an entry that is not an object.
 */
function* expandEntries(
  entries: UnexpandedDocument['entries'],
  isMinified: boolean,
): Generator<ExpandedEntry | null> {
  const current = new Map<string, CheckedValue>()
  for (const given of entries) {
    if (given === null) {
      yield null
      continue
    }
    if (!isMinified) current.clear()
    for (const [key, checked] of given) {
      if (checked === null) current.delete(key)
      else current.set(key, checked)
    }
    const keys = [...current]
    yield {
      entry: Object.fromEntries(keys.map(([key, { value }]) => [key, value])),
      wrong: keys.find(([, { wrong }]) => wrong !== null)?.[1].wrong ?? null,
    }
  }
}

function checkValue(key: string, given: Json): CheckedValue {
  const text = jsonForPhp([key, given])
  const characters = text?.length ?? key.length
  if (text === null) return { value: null, characters, values: 1, wrong: 'PHP cannot read its text' }
  const value = cleaned(given, text)
  const wrong = isReadable(key, value) ? null : `Composer cannot read its ${key}`
  return { value, characters, values: countValues(value), wrong }
}

function countValues(value: Json): number {
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value).reduce<number>((sum, inner) => sum + countValues(inner as Json), 1)
}

/** Returns a version, or the reason why it is invalid. */
function readEntry(
  expanded: ExpandedEntry | null,
  packageName: string,
): UpstreamVersion | SourceVersion | string {
  if (expanded === null) return 'an entry is not an object'
  const { entry, wrong } = expanded
  const { name, version } = entry
  if (typeof version !== 'string' || version.length > maxVersionLength || !isPlainText(version)) {
    return 'an entry has no version'
  }
  const normalized = normalizeVersion(version)
  if (normalized === null) return `${version}: Composer cannot parse the version`
  if (typeof name !== 'string' || toLowerAscii(name) !== packageName) return `${version}: it has another name`
  if (wrong !== null) return `${version}: ${wrong}`
  const dist = readDist(entry['dist'], version)
  if (dist === null && entry['type'] !== 'metapackage') {
    const isSourceOnly = !isJsonObject(entry['dist']) && isJsonObject(entry['source'])
    return isSourceOnly ? { version, normalized } : `${version}: it has no archive that can be mirrored`
  }
  const { source: given, ...others } = entry
  const kept = Object.fromEntries(Object.entries(others).filter(([key]) => !removedKeys.includes(key)))
  const source = usableSource(given)
  return {
    entry: {
      ...kept,
      ...(source !== null && { source }),
      // Composer uses version_normalized. Patterns and the minimum age use our own value, so both must be the same.
      ...(kept['version_normalized'] !== undefined && { version_normalized: normalized }),
    },
    version,
    normalized,
    dist,
    publishedAt: readTime(entry['published-time']),
  }
}

/** Returns a time in ISO format. Null for a time that is missing, invalid, or not in the years 1970 to 9999. */
function readTime(text: Json | undefined): string | null {
  const time = typeof text === 'string' ? new Date(text) : null
  if (time === null || Number.isNaN(time.getTime())) return null
  return time.getTime() >= 0 && time.getUTCFullYear() <= 9999 ? time.toISOString() : null
}

/** Returns the length of all constraints that are compared with each version. */
function constraintCharacters(extra: JsonObject): number {
  return [affectedConstraints(extra), malwareFlags(extra).map(({ constraint }) => constraint)]
    .flat()
    .reduce((sum, constraint) => sum + constraint.length, 0)
}

/** Returns the versions that the upstream flags as malware. */
export function malwareFlags(extra: JsonObject): MalwareFlag[] {
  const filter = extra['filter']
  const flags = isJsonObject(filter) ? filter[quarantineList] : undefined
  if (!Array.isArray(flags)) return []
  return flags.filter(isJsonObject).flatMap(({ constraint, reason }) =>
    typeof constraint === 'string' && isConstraint(constraint)
      ? [
          {
            constraint,
            reason: typeof reason === 'string' ? cleanLine(reason.slice(0, 1000)) : 'flagged as malware',
          },
        ]
      : [],
  )
}

/** Returns the constraints of the versions that advisories affect. */
export function affectedConstraints(extra: JsonObject): string[] {
  const advisories = extra['security-advisories']
  if (!Array.isArray(advisories)) return []
  return advisories
    .filter(isJsonObject)
    .flatMap(({ affectedVersions: affected }) =>
      typeof affected === 'string' && isConstraint(affected) ? [affected] : [],
    )
}

function hasManyLevels(value: Json, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => hasManyLevels(inner as Json, levels - 1))
}

/**
 * Returns a value as JSON. Null for a value that PHP's json_decode cannot read: it contains a lone surrogate, or has too
 * many levels. PHP would refuse the whole document. JSON.stringify escapes only lone surrogates.
 */
export function jsonForPhp(value: Json): string | null {
  if (hasManyLevels(value, maxLevels)) return null
  const text = JSON.stringify(value)
  return /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(text) ? null : text
}

/** Control characters in JSON, which JSON.stringify escapes when they are below a space. Some of these are line ends. */
const controls = /[\x7f-\x9f]|\\(?:b|f|u00[01])/

/** Removes control characters, but no tabs and line ends. */
function withoutControls(text: string): string {
  return text.replace(/(?![\t\n\r])\p{Cc}/gu, '')
}

/**
 * Returns a value of an upstream without control characters, which a terminal would execute, and without
 * `transport-options`, which change how Composer sends requests. `text` contains the value as JSON.
 */
function cleaned(value: Json, text: string): Json {
  return controls.test(text) || text.includes('"transport-options"') ? clean(value) : value
}

function clean(value: Json): Json {
  if (typeof value === 'string') return withoutControls(value)
  if (Array.isArray(value)) return value.map(clean)
  if (!isJsonObject(value)) return value
  const kept = Object.entries(value).filter(([key]) => key !== 'transport-options')
  return Object.fromEntries(kept.map(([key, inner]) => [withoutControls(key), clean(inner as Json)]))
}

function readDist(dist: Json | undefined, version: string): UpstreamDist | null {
  if (!isJsonObject(dist)) return null
  const { type, url, reference, shasum } = dist
  if (typeof type !== 'string' || !distTypes.includes(type)) return null
  if (typeof url !== 'string' || url.length > 4000 || !isPlainText(url)) return null
  if (!/^https?:\/\//.test(url) || !URL.canParse(url)) return null
  const isHex = typeof reference === 'string' && /^[0-9a-f]{7,64}$/i.test(reference)
  return {
    type,
    url,
    shasum: typeof shasum === 'string' && /^[0-9a-f]{40}$/i.test(shasum) ? shasum.toLowerCase() : null,
    versionPath: version.replace(/[^A-Za-z0-9._+-]/g, '-'),
    reference: isHex ? reference.toLowerCase() : createHash('sha1').update(url).digest('hex'),
  }
}

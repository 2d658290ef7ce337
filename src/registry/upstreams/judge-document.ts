import { createHash } from 'node:crypto'
import { isPlainText } from '../../domain/plain-text.ts'
import { maxVersionLength, normalizeVersion, stabilityOf } from '../manifest/composer-version.ts'
import { isConstraint } from '../manifest/constraint.ts'
import { isJsonObject, type Json, type JsonObject } from '../manifest/manifest-json.ts'
import { toLowerAscii } from '../manifest/package-name.ts'
import { versionList } from './client/upstream-root.ts'

/** A valid version of an upstream. */
export interface UpstreamVersion {
  /** The p2 entry of the upstream, without keys that would make Composer bypass this registry. */
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

/** The content of a package's document at an upstream. */
export interface UpstreamContent {
  versions: UpstreamVersion[]
  /** The document's other keys, such as `security-advisories` and `filter`. */
  extra: JsonObject
}

/** Archive types that Composer downloads. The type `path` and others would read the disk of the client. */
const distTypes = ['zip', 'tar', 'gzip', 'xz', 'rar']
/** Keys that would make Composer bypass this registry, or that only a registry may set. */
const removedKeys = ['source', 'notification-url', 'transport-options', 'installation-source']

/**
 * Reads a package's document from an upstream. Expands minified entries and checks each version. A version that
 * Composer cannot read would break every project that requires the package. So it is left out, and `dropped` has the
 * reason. Returns null when the document does not contain the package. For an upstream that has all versions in one
 * list, `part` keeps only development versions, or only the others.
 */
export function judgeDocument(
  document: JsonObject,
  packageName: string,
  part: 'dev' | 'main' | 'all' = 'all',
): { content: UpstreamContent; dropped: string[] } | null {
  const { packages, minified, ...extra } = document
  if (!isJsonObject(packages) || !Object.hasOwn(packages, packageName)) return null
  for (const [key, value] of Object.entries(extra)) if (hasLoneSurrogate(value)) delete extra[key]
  const listed = versionList(packages[packageName]) as Json[]
  const versions: UpstreamVersion[] = []
  const dropped: string[] = []
  for (const entry of minified === 'composer/2.0' ? expandEntries(listed) : listed) {
    const read = readEntry(entry, packageName)
    if (typeof read === 'string') dropped.push(read)
    else if (part === 'all' || (part === 'dev') === (stabilityOf(read.normalized) === 'dev'))
      versions.push(read)
  }
  return { content: { versions, extra }, dropped }
}

/** Expands entries of composer/metadata-minifier: each entry inherits the keys of the previous one. */
function expandEntries(listed: Json[]): Json[] {
  let current: JsonObject = {}
  return listed.map((difference) => {
    if (!isJsonObject(difference)) return difference
    const merged = Object.entries({ ...current, ...difference })
    current = Object.fromEntries(merged.filter(([, value]) => value !== '__unset'))
    return current
  })
}

/** Returns a version, or the reason why it is invalid. */
function readEntry(entry: Json, packageName: string): UpstreamVersion | string {
  if (!isJsonObject(entry)) return 'an entry is not an object'
  const { name, version } = entry
  if (typeof version !== 'string' || version.length > maxVersionLength || !isPlainText(version)) {
    return 'an entry has no version'
  }
  const normalized = normalizeVersion(version)
  if (normalized === null) return `${version}: Composer cannot parse the version`
  if (typeof name !== 'string' || toLowerAscii(name) !== packageName) return `${version}: it has another name`
  if (hasLoneSurrogate(entry)) return `${version}: PHP cannot read its text`
  const wrong = wrongKey(entry)
  if (wrong !== null) return `${version}: Composer cannot read its ${wrong}`
  const dist = readDist(entry['dist'], version)
  if (dist === null && entry['type'] !== 'metapackage')
    return `${version}: it has no archive that can be mirrored`
  const kept = Object.fromEntries(Object.entries(entry).filter(([key]) => !removedKeys.includes(key)))
  const published = entry['published-time']
  const isTime = typeof published === 'string' && !Number.isNaN(Date.parse(published))
  return {
    // Composer uses version_normalized. Patterns and the minimum age use our own value, so both must be the same.
    entry: { ...kept, ...(kept['version_normalized'] !== undefined && { version_normalized: normalized }) },
    version,
    normalized,
    dist,
    publishedAt: isTime ? new Date(published).toISOString() : null,
  }
}

/**
 * Returns whether a value contains a lone surrogate. PHP's json_decode refuses a whole document because of one.
 * JSON.stringify escapes only lone surrogates.
 */
export function hasLoneSurrogate(value: Json): boolean {
  return /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(JSON.stringify(value))
}

const linkKeys = ['require', 'require-dev', 'conflict', 'replace', 'provide']
const isText = (value: Json | undefined) => typeof value === 'string'
const isTexts = (value: Json) => Array.isArray(value) && value.every(isText)
const isMap = (value: Json) => isJsonObject(value) || (Array.isArray(value) && value.length === 0)
const isTextMap = (value: Json) => isMap(value) && Object.values(value as JsonObject).every(isText)

/** The types of keys that Composer needs to load an entry (COMPOSER E2). Null counts as absent. */
const shapes: Record<string, (value: Json) => boolean> = {
  type: isText,
  time: isText,
  'target-dir': isText,
  suggest: isTextMap,
  autoload: isMap,
  support: isMap,
  'php-ext': isMap,
  'include-path': isTexts,
  bin: (value) => isText(value) || isTexts(value),
  keywords: (value) => !Array.isArray(value) || isTexts(value),
  ...Object.fromEntries(linkKeys.map((key) => [key, isLinks])),
}

/**
 * Returns whether Composer can read links. PHP writes an empty object as `[]`. `self.version` means the version of
 * the package itself.
 */
function isLinks(links: Json): boolean {
  return (
    isTextMap(links) &&
    Object.entries(links as JsonObject).every(
      ([target, constraint]) =>
        /^[A-Za-z0-9_./-]+$/.test(target) &&
        (constraint === 'self.version' || isConstraint(constraint as string)),
    )
  )
}

function wrongKey(entry: JsonObject): string | null {
  const wrong = Object.entries(shapes).find(([key, fits]) => {
    const value = entry[key]
    return value !== undefined && value !== null && !fits(value)
  })
  return wrong?.[0] ?? null
}

function readDist(dist: Json | undefined, version: string): UpstreamDist | null {
  if (!isJsonObject(dist)) return null
  const { type, url, reference, shasum } = dist
  if (typeof type !== 'string' || !distTypes.includes(type)) return null
  if (typeof url !== 'string' || url.length > 4000 || !/^https?:\/\//.test(url) || !URL.canParse(url))
    return null
  const isHex = typeof reference === 'string' && /^[0-9a-f]{7,64}$/i.test(reference)
  return {
    type,
    url,
    shasum: typeof shasum === 'string' && /^[0-9a-f]{40}$/i.test(shasum) ? shasum.toLowerCase() : null,
    versionPath: version.replace(/[^A-Za-z0-9._+-]/g, '-'),
    reference: isHex ? reference.toLowerCase() : createHash('sha1').update(url).digest('hex'),
  }
}

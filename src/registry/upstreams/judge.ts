import { createHash } from 'node:crypto'
import { isPlainText } from '../../domain/plain-text.ts'
import { normalizeVersion, stabilityOf } from '../manifest/composer-version.ts'
import { isConstraint } from '../manifest/constraint.ts'
import { isJsonObject, type Json, type JsonObject } from '../manifest/manifest-json.ts'
import { toLowerAscii } from '../manifest/package-name.ts'
import { maxVersionLength } from '../manifest/version.ts'
import { versionList } from './root.ts'

/** A version of an upstream that can be offered. */
export interface UpstreamVersion {
  /** The p2 entry as the upstream has it, without what would lead past us. */
  entry: JsonObject
  version: string
  normalized: string
  /** Null for a metapackage, which has no archive. */
  dist: UpstreamDist | null
  /** When the upstream published it; null when it does not say. */
  publishedAt: string | null
}

/** Where an upstream keeps an archive. */
export interface UpstreamDist {
  type: string
  url: string
  shasum: string | null
  /** The version as our URL has it. */
  versionPath: string
  /** Lower-case hex, as our URL has it. */
  reference: string
}

/** What a document of an upstream says about a package. */
export interface UpstreamContent {
  versions: UpstreamVersion[]
  /** The document's other keys, such as `security-advisories` and `filter`. */
  extra: JsonObject
}

/** Archive types that Composer unpacks. `path` and others would read the consumer's own disk. */
const distTypes = ['zip', 'tar', 'gzip', 'xz', 'rar']
/** Keys that lead past this registry, or that only a registry may set. */
const removedKeys = ['source', 'notification-url', 'transport-options', 'installation-source']

/**
 * Reads a document of an upstream about one package: expands minified entries, and judges version by version. One that
 * Composer could not read would break every project that requires the package: it is left out and told in `dropped`.
 * Null when the document does not know the package. `part`: keep only development versions, or only the others, where
 * an upstream has both in one list.
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

/** Undoes what composer/metadata-minifier does: each entry inherits what the one before it says. */
function expandEntries(listed: Json[]): Json[] {
  let current: JsonObject = {}
  return listed.map((difference) => {
    if (!isJsonObject(difference)) return difference
    const merged = Object.entries({ ...current, ...difference })
    current = Object.fromEntries(merged.filter(([, value]) => value !== '__unset'))
    return current
  })
}

/** A version, or the reason why it cannot be offered. */
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
    // Composer believes version_normalized, and so do patterns and the minimum age: both must mean the same.
    entry: { ...kept, ...(kept['version_normalized'] !== undefined && { version_normalized: normalized }) },
    version,
    normalized,
    dist,
    publishedAt: isTime ? new Date(published).toISOString() : null,
  }
}

/** PHP's json_decode refuses a whole document for one lone surrogate; JSON.stringify escapes only those. */
export function hasLoneSurrogate(value: Json): boolean {
  return /(?<!\\)(?:\\\\)*\\ud[89a-f]/.test(JSON.stringify(value))
}

const linkKeys = ['require', 'require-dev', 'conflict', 'replace', 'provide']
const isText = (value: Json | undefined) => typeof value === 'string'
const isTexts = (value: Json) => Array.isArray(value) && value.every(isText)
const isMap = (value: Json) => isJsonObject(value) || (Array.isArray(value) && value.length === 0)
const isTextMap = (value: Json) => isMap(value) && Object.values(value as JsonObject).every(isText)

/** What Composer needs to load an entry at all (COMPOSER E2). Null passes for absent. */
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

/** PHP writes an empty object as an empty list. `self.version` means the version itself. */
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

import { compareNormalized } from '../../composer/composer-version.ts'
import { isJsonObject, type Json, type JsonObject } from '../../composer/manifest-json.ts'
import { difference } from '../../composer/minify.ts'
import type { HeldVersion } from '../../documents/stored-documents.ts'
import { formatCount, formatTime } from '../../domain/formats.ts'
import { documentAdvisories } from './complete-advisories.ts'
import { readPatterns } from './patterns.ts'
import {
  affectedConstraints,
  malwareFlags,
  type UpstreamContent,
  type UpstreamVersion,
} from './read-document.ts'
import { readConstraint } from './satisfies.ts'

/** The rules of a repository for one package of an upstream. */
export interface OfferRules {
  packageName: string
  allow: readonly string[]
  deny: readonly string[]
  exempt: readonly string[]
  minimumAgeHours: number
  /** The names of the repository's own packages. No package of an upstream may replace or provide them. */
  ownNames: ReadonlySet<string>
  /** A constraint on the versions that the upstream's summary flags as malware. Null without such versions. */
  flagged: string | null
  /** Whether the upstream stopped serving the package. */
  isGone: boolean
  /** Whether versions keep their `source`, from which Composer can clone them without this registry. */
  keepsSource: boolean
  now: Date
  /** Returns the time at which this repository first saw a version. */
  firstSeenAt: (version: UpstreamVersion) => Date
  /** Returns what identifies a version and its content within the package. */
  keyOf: (version: UpstreamVersion) => string
  /** The keys of the versions that an admin has allowed before the minimum age. */
  early: ReadonlySet<string>
  /** Returns the shasum that the document must announce instead of the upstream's. Undefined when that one is right. */
  shasumOf: (version: UpstreamVersion) => string | undefined
  distUrl: (version: UpstreamVersion) => string
}

/** How many versions a warning names. */
const maxNamed = 5
/** How many versions that are held back are listed. */
const maxHeld = 1000

/** A p2 document of a mirrored package. */
export interface Offer {
  text: string
  /** The time at which the next version reaches the minimum age. Null when no version waits. */
  dueAt: Date | null
  /** The versions that wait for the minimum age, newest first. At most 1000. */
  heldBack: HeldVersion[]
  /** Whether the document has no versions, because all of them wait. */
  isAllHeldBack: boolean
}

/**
 * Returns the p2 document of a mirrored package (UPSTREAMS 5, 11–13). It has only versions that the rules allow, with
 * archive URLs of this registry. If it has a `warning`, that is its first member. Versions that wait for the minimum age
 * are named there if no other version is left, and otherwise in `info`. Composer prints both.
 */
export function offer(content: UpstreamContent, rules: OfferRules): Offer {
  const { packageName, allow, deny, flagged } = rules
  const constraints = malwareFlags(content.extra).map(({ constraint }) => constraint)
  const flags = [...constraints, ...(flagged === null ? [] : [flagged])].map(readConstraint)
  const [isAllowed, isDenied] = [readPatterns(allow, packageName), readPatterns(deny, packageName)]
  const isPermitted = (normalized: string) =>
    (allow.length === 0 || isAllowed(normalized)) && !isDenied(normalized)
  const permitted = content.versions.filter(
    ({ normalized }) => isPermitted(normalized) && !flags.some((isFlagged) => isFlagged(normalized)),
  )
  const { offered, waiting } = withoutYoung(permitted, affectedConstraints(content.extra), rules)
  const isAllHeldBack = offered.length === 0 && waiting.length > 0
  let newer: JsonObject | null = null
  const entries = offered.map((version) => {
    const entry = entryOfMirror(version, rules)
    const text = JSON.stringify(difference(entry, newer))
    newer = entry
    return text
  })
  const held = textOfHeld(waiting, rules)
  const { warning, info, others } = withMessages(withReadableAdvisories(content.extra), {
    warning: [warningOfSources(content, packageName, isPermitted), isAllHeldBack ? held : ''],
    info: [isAllHeldBack ? '' : held],
  })
  const extra = JSON.stringify(others).slice(1, -1)
  const text =
    `{${member('warning', warning)}${member('info', info)}"packages":{${JSON.stringify(packageName)}:[${entries.join(',')}]},"minified":"composer/2.0"` +
    `${extra === '' ? '' : `,${extra}`}}`
  return {
    text,
    dueAt: waiting.reduce<Date | null>((first, { until }) => (first && first < until ? first : until), null),
    heldBack: waiting.slice(0, maxHeld).map(({ version, until }) => ({
      version: version.version,
      key: rules.keyOf(version),
      until: until.toISOString(),
    })),
    isAllHeldBack,
  }
}

function member(key: string, text: string): string {
  return text === '' ? '' : `${JSON.stringify(key)}:${JSON.stringify(text)},`
}

/**
 * Returns the messages of a document: those of the upstream and then ours. The upstream may show its messages to some
 * versions of Composer only. Everybody sees them when there is one of ours.
 */
function withMessages(
  extra: JsonObject,
  ours: { warning: readonly string[]; info: readonly string[] },
): { warning: string; info: string; others: JsonObject } {
  const { warning, info, ...others } = extra
  const join = (kind: 'warning' | 'info', theirs: Json | undefined) => {
    const own = ours[kind].filter((one) => one !== '')
    if (own.length > 0) delete others[`${kind}-versions`]
    return [...(typeof theirs === 'string' && theirs !== '' ? [theirs] : []), ...own].join(' ')
  }
  return { warning: join('warning', warning), info: join('info', info), others }
}

/** Returns a sentence that names the versions that wait for the minimum age. Empty without such versions. */
function textOfHeld(
  waiting: readonly WaitingVersion[],
  { packageName, minimumAgeHours }: OfferRules,
): string {
  if (waiting.length === 0) return ''
  const timeOf = ({ until }: WaitingVersion) => formatTime(until)
  const times = new Set(waiting.map(timeOf))
  const named = waiting
    .slice(0, maxNamed)
    .map((one) => `${one.version.version}${times.size > 1 ? ` until ${timeOf(one)}` : ''}`)
  const others = waiting.length > maxNamed ? ` and ${waiting.length - maxNamed} more` : ''
  const until = times.size > 1 ? '' : ` until ${[...times].join('')}`
  const [noun, them] = waiting.length === 1 ? ['This version', 'it'] : ['These versions', 'them']
  return `${noun} of ${packageName} ${waiting.length === 1 ? 'is' : 'are'} held back${until}, because this repository offers new versions after ${formatCount(minimumAgeHours, 'hour')}: ${named.join(', ')}${others}. An admin of the repository can allow ${them} now.`
}

/** Returns a warning that names the versions that the upstream offers only as source. Empty without such versions. */
function warningOfSources(
  { sourceOnly = [] }: UpstreamContent,
  packageName: string,
  isPermitted: (normalized: string) => boolean,
): string {
  const missing = sourceOnly.filter(({ normalized }) => isPermitted(normalized))
  if (missing.length === 0) return ''
  const named = missing.slice(0, maxNamed).map(({ version }) => version)
  const others = missing.length > maxNamed ? ` and ${missing.length - maxNamed} more` : ''
  return `These versions of ${packageName} are missing here, because the upstream offers them only as source, without an archive: ${named.join(', ')}${others}.`
}

/** Adds a warning to a document of `offer`. */
export function withWarning(document: string, warning: string): string {
  const [start, own] = /^\{"warning":("(?:[^"\\]|\\.)*"),/.exec(document) ?? []
  const all = own === undefined ? warning : `${warning} ${JSON.parse(own)}`
  return `{"warning":${JSON.stringify(all)},${document.slice(start?.length ?? 1)}`
}

/** Returns a document's other keys. An advisory that Composer cannot read would end `composer update` with an error. */
function withReadableAdvisories(extra: JsonObject): JsonObject {
  const listed = extra['security-advisories']
  // Composer ignores another type, and then asks the API. An empty list would mean that there are no advisories.
  if (typeof listed !== 'object' || listed === null) return extra
  return { ...extra, 'security-advisories': documentAdvisories(listed) }
}

/** Returns the names that the versions replace or provide. */
export function replacedNames({ versions }: UpstreamContent): string[] {
  const names = versions.flatMap(({ entry }) =>
    ['replace', 'provide'].flatMap((key) =>
      isJsonObject(entry[key]) ? Object.keys(entry[key] as JsonObject) : [],
    ),
  )
  return [...new Set(names.map((name) => name.toLowerCase()))]
}

/** A version that waits for the minimum age. */
interface WaitingVersion {
  version: UpstreamVersion
  until: Date
}

/**
 * Removes versions that are younger than the minimum age. The age starts when the upstream published the version. If
 * that time is unknown, it starts when this registry first saw the version. A time that the author wrote into the
 * version is ignored. A version that an admin has allowed does not wait.
 */
function withoutYoung(
  versions: UpstreamVersion[],
  affected: readonly string[],
  { packageName, exempt, minimumAgeHours, now, firstSeenAt, early, keyOf }: OfferRules,
): { offered: UpstreamVersion[]; waiting: WaitingVersion[] } {
  const ripeAt = (version: UpstreamVersion) => {
    const since = version.publishedAt === null ? firstSeenAt(version) : new Date(version.publishedAt)
    return since.getTime() + minimumAgeHours * 3_600_000
  }
  const isExempt = readPatterns(exempt, packageName)
  const young = new Set(
    minimumAgeHours === 0
      ? []
      : versions.filter(
          (version) =>
            ripeAt(version) > now.getTime() && !isExempt(version.normalized) && !early.has(keyOf(version)),
        ),
  )
  for (const version of fixes(versions, young, affected)) young.delete(version)
  return {
    offered: versions.filter((version) => !young.has(version)),
    waiting: Array.from(young, (version) => ({ version, until: new Date(ripeAt(version)) })),
  }
}

/**
 * Returns the young versions that fix a vulnerability: an advisory affects the next lower version, but not this one.
 * The next lower version is an offered or unaffected one. So only the lowest of several fixes passes.
 */
function fixes(
  versions: readonly UpstreamVersion[],
  young: ReadonlySet<UpstreamVersion>,
  affected: readonly string[],
): UpstreamVersion[] {
  if (young.size === 0 || affected.length === 0) return []
  const tests = affected.map(readConstraint)
  const isAffected = ({ normalized }: UpstreamVersion) => tests.some((test) => test(normalized))
  const ascending = versions
    .filter(({ normalized }) => !normalized.startsWith('dev-'))
    .toSorted((a, b) => compareNormalized(a.normalized, b.normalized))
  let below: UpstreamVersion | null = null
  const found: UpstreamVersion[] = []
  for (const version of ascending) {
    const isYoung = young.has(version)
    if (isYoung && isAffected(version)) continue
    if (isYoung && below !== null && !young.has(below) && isAffected(below)) found.push(version)
    below = version
  }
  return found
}

/**
 * Returns the entry with the archive URL of this registry. Removes the repository's own packages from `replace` and
 * `provide`.
 */
function entryOfMirror(
  version: UpstreamVersion,
  { ownNames, isGone, keepsSource, distUrl, shasumOf }: OfferRules,
): JsonObject {
  const { dist, source, ...entry } = version.entry
  const shasum = shasumOf(version)
  const { mirrors: _, ...shown } = isJsonObject(dist) ? dist : {}
  return {
    ...entry,
    ...links(entry, 'replace', ownNames),
    ...links(entry, 'provide', ownNames),
    ...(isGone && entry['abandoned'] === undefined && { abandoned: true }),
    ...(keepsSource && source !== undefined && { source }),
    ...(version.dist !== null && {
      dist: { ...shown, ...(shasum !== undefined && { shasum }), url: distUrl(version) },
    }),
  }
}

function links(entry: JsonObject, key: string, ownNames: ReadonlySet<string>): JsonObject {
  const given: Json | undefined = entry[key]
  if (!isJsonObject(given)) return {}
  const kept = Object.entries(given).filter(([name]) => !ownNames.has(name.toLowerCase()))
  return kept.length === Object.keys(given).length ? {} : { [key]: Object.fromEntries(kept) }
}

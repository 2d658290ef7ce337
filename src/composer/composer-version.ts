import { isPlainText } from '../domain/plain-text.ts'
import { errcode, Refusal } from '../domain/refusal.ts'

/** An uploaded version in svc's and in Composer's terms. */
export interface PublishedVersion {
  /** The version as uploaded: strict SemVer 2.0.0. */
  version: string
  /** The `version` of the p2 entry: the version itself, or `dev-<version>` if Composer cannot parse it. */
  composerVersion: string
  /**
   * Composer's normalized form of `composerVersion`, which is the `version_normalized` of the entry. It must be unique.
   */
  normalized: string
  /** Whether the entry is in `<package>~dev.json`. */
  isDev: boolean
}

/** The maximum length of a version, which is part of URLs and file names. */
export const maxVersionLength = 255

const identifier = '(?:0|[1-9]\\d*|\\d*[a-zA-Z-][0-9a-zA-Z-]*)'
const semver = new RegExp(
  '^(?:0|[1-9]\\d*)\\.(?:0|[1-9]\\d*)\\.(?:0|[1-9]\\d*)' +
    `(?:-${identifier}(?:\\.${identifier})*)?` +
    '(?:\\+[0-9a-zA-Z-]+(?:\\.[0-9a-zA-Z-]+)*)?$',
)

/** Returns whether a string is strict SemVer 2.0.0: no `v`, no missing part, no leading zero. */
export function isSemver(version: string): boolean {
  return version.length <= maxVersionLength && semver.test(version)
}

/** Reads the version of an upload. Throws errcode 3 with the errmsg of SPEC 7 when it is not SemVer 2.0.0. */
export function readVersion(version: string): PublishedVersion {
  if (!isSemver(version)) throw badVersion(version)
  const normalized = isReadAlike(version) ? normalizeVersion(version) : null
  const composerVersion = normalized === null ? `dev-${version}` : version
  return {
    version,
    composerVersion,
    normalized: normalized ?? composerVersion,
    isDev: normalized === null || stabilityOf(normalized) === 'dev',
  }
}

/**
 * Reads the name of a Git branch, as Composer does: `1.x` is `1.x-dev`, and any other name `dev-<name>`. Returns null for a
 * name that cannot be part of a URL and of a constraint.
 */
export function readBranch(name: string): PublishedVersion | null {
  if (!/^[\w./+-]+$/.test(name) || name.length > maxVersionLength - 4) return null
  const numeric = normalizeNumericBranch(`${name}-dev`)
  const normalized = numeric ?? `dev-${name}`
  const prefix = name.startsWith('v') ? 'v' : ''
  const version = numeric === null ? normalized : prefix + numeric.replace(/(?:\.9999999)+/, '.x')
  return { version, composerVersion: version, normalized, isDev: true }
}

/** Returns whether a version is that of a branch: no upload can have it. */
export function isBranchVersion({ version }: Pick<PublishedVersion, 'version'>): boolean {
  return !isSemver(version)
}

/** Returns whether a `version` in composer.json equals the uploaded one. To Composer, `v1.0` is 1.0.0. */
export function isSameVersion(text: string, { version, normalized }: PublishedVersion): boolean {
  return text === version || (normalizeVersion(text) ?? `dev-${text}`) === normalized
}

function badVersion(version: string): Refusal {
  const rest = version.slice(1)
  const hint = /^v/i.test(version) && isSemver(rest) ? `did you mean ${rest}?` : undefined
  const rule =
    'a version must be SemVer 2.0.0: major.minor.patch, such as 1.0.0 or 1.1.0-beta.2, without a "v"'
  return new Refusal(errcode.invalidArgument, `validate [Version:${version}] failed`, {
    warning: hint ?? rule,
    details: hint === undefined ? [rule] : [hint, rule],
  })
}

/** The stability of a version in Composer. A project installs only versions of its minimum stability or better. */
export type Stability = 'stable' | 'RC' | 'beta' | 'alpha' | 'dev'

// This is Composer's grammar, but each character matches in one way only. Composer's nested repetition `(?:[.-]?\d+)*`
// backtracks exponentially without PCRE's possessive quantifiers.
/** The source of a pattern for prereleases in Composer. It has three groups: the stability, its numbers, and `dev`. */
export const modifier = '[._-]?(?:(stable|beta|b|RC|alpha|a|patch|pl|p)(\\d*(?:[.-]\\d+)*))?([.-]?dev)?'

const date = '\\d{4}(?:[.:-]?\\d{2}){1,6}'
const classical = new RegExp(`^v?(\\d{1,5})(\\.\\d+)?(\\.\\d+)?(\\.\\d+)?${modifier}$`, 'i')
const dated = new RegExp(`^v?(${date}(?:[.:-]?\\d{1,3})?)${modifier}$`, 'i')
const datedSinceComposer26 = new RegExp(`^v?${date}(?:[.:-]?\\d{1,3}){2}${modifier}$`, 'i')
const numericBranch = /^v?(\d+)(\.(?:\d+|[x*]))?(\.(?:\d+|[x*]))?(\.(?:\d+|[x*]))?$/i

/**
 * Normalizes a version as Composer does. Null when Composer refuses it. This is the grammar of Composer 2.0 to 2.5.
 * Newer releases accept the same versions. Control characters are refused, although Composer accepts some.
 */
export function normalizeVersion(version: string): string | null {
  if (!isPlainText(version)) return null
  const bare = withoutAlias(trimSpaces(version)).replace(/@(?:stable|RC|beta|alpha|dev)$/i, '')
  if (bare === 'master' || bare === 'trunk' || bare === 'default') return `dev-${bare}`
  if (/^dev-/i.test(bare)) return `dev-${bare.slice(4)}`
  const core = withoutBuild(bare)
  return normalizeRelease(core) ?? normalizeNumericBranch(core)
}

/**
 * Returns whether all releases of Composer read this version in the same way. Composer 2.6 and later read `100000.0.0`
 * as a date. Earlier ones refuse it or, with `-dev`, read it as a branch. A lock file written by one release would not
 * install with the other.
 */
export function isReadAlike(version: string): boolean {
  const core = withoutBuild(version)
  return normalizeRelease(core) !== null || !datedSinceComposer26.test(core)
}

/** Returns the stability of a normalized version. */
export function stabilityOf(normalized: string): Stability {
  if (normalized.startsWith('dev-') || normalized.endsWith('-dev')) return 'dev'
  const word = /-(alpha|beta|RC)/.exec(normalized)?.[1]
  return (word as Stability | undefined) ?? 'stable'
}

/**
 * Compares normalized versions like PHP's `version_compare`. Sorts the lower version first. No branch such as `dev-main` is
 * lower or higher than another one.
 */
export function compareNormalized(a: string, b: string): number {
  if (a.startsWith('dev-') && b.startsWith('dev-')) return 0
  const left = a.match(/\d+|[a-z]+/gi) ?? []
  const right = b.match(/\d+|[a-z]+/gi) ?? []
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const order = compareParts(left[i], right[i])
    if (order !== 0) return order
  }
  return 0
}

/** Removes ` as <alias>`, which is allowed in a constraint of a root package. */
export function withoutAlias(text: string): string {
  return text.replace(/^([^, ]+) +as +[^, ]+$/, '$1')
}

/** Removes spaces at both ends. Composer trims no other white space. */
export function trimSpaces(text: string): string {
  let start = 0
  let end = text.length
  while (text[start] === ' ') start++
  while (end > start && text[end - 1] === ' ') end--
  return text.slice(start, end)
}

function withoutBuild(version: string): string {
  return version.replace(/^([^, +]+)\+[^ ]+$/, '$1')
}

/** Returns the normalized form of a release: 1.0-b2 is 1.0.0.0-beta2. */
function normalizeRelease(core: string): string | null {
  const release = classical.exec(core)
  if (release) {
    const [, major, minor = '.0', patch = '.0', build = '.0', word, numbers, dev] = release
    return `${major}${minor}${patch}${build}${normalizeModifier(word, numbers, dev)}`
  }
  const [, day, word, numbers, dev] = dated.exec(core) ?? []
  return day === undefined ? null : day.replace(/\D/g, '.') + normalizeModifier(word, numbers, dev)
}

const fullWords: Record<string, string> = { a: 'alpha', b: 'beta', p: 'patch', pl: 'patch', rc: 'RC' }

function normalizeModifier(word: string | undefined, numbers = '', dev = ''): string {
  // Composer removes `stable` only in lower case, together with everything after it.
  if (word === 'stable') return ''
  const lower = word?.toLowerCase()
  const prerelease = lower === undefined ? '' : `-${fullWords[lower] ?? lower}${numbers.replace(/^[.-]/, '')}`
  return prerelease + (dev === '' ? '' : '-dev')
}

/** Normalizes a branch such as 1.x-dev, which is newer than every 1.* version. */
function normalizeNumericBranch(core: string): string | null {
  const branch = /^(.*?)[.-]?dev$/is.exec(core)?.[1]
  const parts = branch === undefined ? null : numericBranch.exec(trimSpaces(branch))
  if (!parts) return null
  const [, major, ...rest] = parts
  return `${major}${rest.map((part) => (part ?? '.x').replace(/[xX*]/, '9999999')).join('')}-dev`
}

const numberRank = 4
const wordRanks: Record<string, number> = { stable: -1, dev: 0, alpha: 1, beta: 2, RC: 3, patch: 5 }

/** Compares two parts. A missing part is lower than every number: 1.0-RC1 < 1.0 < 1.0.0 and 1.0 < 1.0-patch1. */
function compareParts(a: string | undefined, b: string | undefined): number {
  const left = wordRanks[a ?? ''] ?? numberRank
  const right = wordRanks[b ?? ''] ?? numberRank
  if (left !== numberRank || right !== numberRank) return Math.sign(left - right)
  const difference = BigInt(a ?? -1) - BigInt(b ?? -1)
  return Number(difference > 0n) - Number(difference < 0n)
}

/** The ranks that PHP's `version_compare` gives to the parts of a normalized version. Numbers have a rank too. */
const keys: Record<string, string> = { dev: '0', alpha: '1', beta: '2', RC: '3', patch: '6' }
const endKey = '4'
const numberKey = '5'

/**
 * Returns a sort key for the database. A byte-by-byte comparison of the keys sorts lower versions first. All `dev-`
 * versions have the same key, which is below every release. Their date orders them.
 */
export function versionSortKey(normalized: string): string {
  if (normalized.startsWith('dev-')) return ''
  const parts = normalized.match(/\d+|[a-z]+/gi) ?? []
  return parts.map(partKey).join('') + endKey
}

/** Puts the number of digits before a number, so that 9 comes before 10. No version has 1,000 digits. */
function partKey(part: string): string {
  const rank = keys[part]
  if (rank !== undefined) return rank
  const digits = part.replace(/^0+(?=\d)/, '')
  return `${numberKey}${String(digits.length).padStart(3, '0')}${digits}`
}

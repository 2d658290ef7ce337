import { isPlainText } from '../../domain/plain-text.ts'

/** How Composer ranks a version: a project takes only what is at least as stable as it asks for. */
export type Stability = 'stable' | 'RC' | 'beta' | 'alpha' | 'dev'

// Composer's grammar, so written that a character can be read in one way only: its own nested repetition
// `(?:[.-]?\d+)*` backtracks exponentially without PCRE's possessive quantifiers.
/** A prerelease as Composer knows it, to be built into a pattern. Groups: the word, its numbers, `dev`. */
export const modifier = '[._-]?(?:(stable|beta|b|RC|alpha|a|patch|pl|p)(\\d*(?:[.-]\\d+)*))?([.-]?dev)?'

const date = '\\d{4}(?:[.:-]?\\d{2}){1,6}'
const classical = new RegExp(`^v?(\\d{1,5})(\\.\\d+)?(\\.\\d+)?(\\.\\d+)?${modifier}$`, 'i')
const dated = new RegExp(`^v?(${date}(?:[.:-]?\\d{1,3})?)${modifier}$`, 'i')
const datedSinceComposer26 = new RegExp(`^v?${date}(?:[.:-]?\\d{1,3}){2}${modifier}$`, 'i')
const numericBranch = /^v?(\d+)(\.(?:\d+|[x*]))?(\.(?:\d+|[x*]))?(\.(?:\d+|[x*]))?$/i

/**
 * What Composer's version parser makes of a version, or null when it refuses. By the grammar of Composer 2.0 to
 * 2.5: what that accepts, newer ones accept too. Control characters are refused, though Composer lets some through.
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
 * Whether all Composers in use read this version alike. From 2.6 on `100000.0.0` is taken for a date; before, it was
 * refused or, with `-dev`, taken for a branch: a lock file written by one would not install with the other.
 */
export function isReadAlike(version: string): boolean {
  const core = withoutBuild(version)
  return normalizeRelease(core) !== null || !datedSinceComposer26.test(core)
}

/** The stability of a normalised version. */
export function stabilityOf(normalized: string): Stability {
  if (normalized.startsWith('dev-') || normalized.endsWith('-dev')) return 'dev'
  const word = /-(alpha|beta|RC)/.exec(normalized)?.[1]
  return (word as Stability | undefined) ?? 'stable'
}

/** Orders normalised versions but `dev-` ones, the lower first, as PHP's `version_compare` does. */
export function compareNormalized(a: string, b: string): number {
  const left = a.match(/\d+|[a-z]+/gi) ?? []
  const right = b.match(/\d+|[a-z]+/gi) ?? []
  for (let i = 0; i < Math.max(left.length, right.length); i++) {
    const order = compareParts(left[i], right[i])
    if (order !== 0) return order
  }
  return 0
}

/** Drops ` as <alias>`, which a constraint of a root package may carry. */
export function withoutAlias(text: string): string {
  return text.replace(/^([^, ]+) +as +[^, ]+$/, '$1')
}

/** Drops spaces at both ends, and only spaces: Composer knows no others. */
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

/** Numbers and prerelease spelled out: 1.0-b2 is 1.0.0.0-beta2. */
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
  // Composer drops it in lower case only, and then drops what follows as well.
  if (word === 'stable') return ''
  const lower = word?.toLowerCase()
  const prerelease = lower === undefined ? '' : `-${fullWords[lower] ?? lower}${numbers.replace(/^[.-]/, '')}`
  return prerelease + (dev === '' ? '' : '-dev')
}

/** 1.x-dev is a branch: newer than every 1.* there will be. */
function normalizeNumericBranch(core: string): string | null {
  const branch = /^(.*?)[.-]?dev$/is.exec(core)?.[1]
  const parts = branch === undefined ? null : numericBranch.exec(trimSpaces(branch))
  if (!parts) return null
  const [, major, ...rest] = parts
  return `${major}${rest.map((part) => (part ?? '.x').replace(/[xX*]/, '9999999')).join('')}-dev`
}

const numberRank = 4
const wordRanks: Record<string, number> = { stable: -1, dev: 0, alpha: 1, beta: 2, RC: 3, patch: 5 }

/** A part that is not there counts as a number below all others: 1.0-RC1 < 1.0 < 1.0.0 and 1.0 < 1.0-patch1. */
function compareParts(a: string | undefined, b: string | undefined): number {
  const left = wordRanks[a ?? ''] ?? numberRank
  const right = wordRanks[b ?? ''] ?? numberRank
  if (left !== numberRank || right !== numberRank) return Math.sign(left - right)
  const difference = BigInt(a ?? -1) - BigInt(b ?? -1)
  return Number(difference > 0n) - Number(difference < 0n)
}

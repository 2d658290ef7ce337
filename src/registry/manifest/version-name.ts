import { errcode, RegistryError } from '../errors.ts'
import { compareNormalized, isReadAlike, normalizeVersion, stabilityOf } from './composer-version.ts'

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

/** Returns whether a `version` in composer.json equals the uploaded one. To Composer, `v1.0` is 1.0.0. */
export function isSameVersion(text: string, { version, normalized }: PublishedVersion): boolean {
  return text === version || (normalizeVersion(text) ?? `dev-${text}`) === normalized
}

function badVersion(version: string): RegistryError {
  const rest = version.slice(1)
  const hint = /^v/i.test(version) && isSemver(rest) ? `did you mean ${rest}?` : undefined
  const rule =
    'a version must be SemVer 2.0.0: major.minor.patch, such as 1.0.0 or 1.1.0-beta.2, without a "v"'
  return new RegistryError(errcode.invalidArgument, `validate [Version:${version}] failed`, {
    warning: hint ?? rule,
    details: hint === undefined ? [rule] : [hint, rule],
  })
}

/**
 * Sorts versions newest first, like Packagist. The version decides, with `dev-` versions below all releases. Then the
 * date decides.
 */
export function compareNewestFirst(a: ListedVersion, b: ListedVersion): number {
  return (
    compareNormalized(comparable(b), comparable(a)) ||
    b.publishedAt.getTime() - a.publishedAt.getTime() ||
    Number(a.normalized > b.normalized) - Number(a.normalized < b.normalized)
  )
}

interface ListedVersion {
  normalized: string
  publishedAt: Date
}

function comparable({ normalized }: ListedVersion): string {
  return normalized.startsWith('dev-') ? '0.0.0-alpha' : normalized
}

import { isConstraint } from '../../composer/constraint.ts'
import { matchesGlob } from '../../domain/glob.ts'
import { readConstraint } from './satisfies.ts'

/** The maximum number of patterns of each kind. */
export const maxPatterns = 500

const shape = /^(?:\*|[a-z0-9_.*-]+\/[a-z0-9_.*-]+)$/

/**
 * Returns whether a text is a valid pattern of packages: `symfony/*`, or `symfony/*:^6` with a version constraint. `*`
 * matches any characters.
 */
export function isPattern(pattern: string): boolean {
  const { name, constraint } = splitPattern(pattern)
  if (pattern.length > 500 || !shape.test(name)) return false
  return constraint === null || isConstraint(constraint)
}

/** Returns whether a pattern matches the name of a package. Ignores its constraint. */
export function matchesName(pattern: string, packageName: string): boolean {
  return matchesGlob(splitPattern(pattern).name, packageName)
}

/** Returns whether a pattern matches this version of the package. Without a constraint it matches every version. */
export function matchesVersion(pattern: string, packageName: string, normalized: string): boolean {
  return readPatterns([pattern], packageName)(normalized)
}

/** Returns a function that returns whether one of the patterns matches a version of the package. */
export function readPatterns(
  patterns: readonly string[],
  packageName: string,
): (normalized: string) => boolean {
  const tests = patterns
    .filter((pattern) => matchesName(pattern, packageName))
    .map((pattern) => splitPattern(pattern).constraint)
    .map((constraint) => (constraint === null ? () => true : readConstraint(constraint)))
  return (normalized) => tests.some((test) => test(normalized))
}

/** Returns the two parts of a pattern. The constraint is null when the pattern means every version. */
export function splitPattern(pattern: string): { name: string; constraint: string | null } {
  const colon = pattern.indexOf(':')
  if (colon < 0) return { name: pattern, constraint: null }
  return { name: pattern.slice(0, colon), constraint: pattern.slice(colon + 1) }
}

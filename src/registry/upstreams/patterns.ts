import { isConstraint } from '../manifest/constraint.ts'
import { satisfies } from './satisfies.ts'

/** At most so many patterns of each kind. */
export const maxPatterns = 500

const shape = /^(?:\*|[a-z0-9_.*-]+\/[a-z0-9_.*-]+)$/

/**
 * Whether a text is a pattern of packages: `symfony/*`, or `symfony/*:^6` with a constraint on the version. `*` stands
 * for any characters.
 */
export function isPattern(pattern: string): boolean {
  const { name, constraint } = parts(pattern)
  if (pattern.length > 500 || !shape.test(name)) return false
  return constraint === null || isConstraint(constraint)
}

/** Whether a pattern names the package, whatever its constraint says. */
export function matchesName(pattern: string, packageName: string): boolean {
  return matchesGlob(parts(pattern).name, packageName)
}

/**
 * Whether a text matches a pattern in which `*` stands for any characters. Takes time proportional to the product of
 * the lengths: a regular expression with many `.*` could take for ever, and upstreams send patterns too.
 */
export function matchesGlob(pattern: string, text: string): boolean {
  let [p, t, star, resume] = [0, 0, -1, 0]
  while (t < text.length) {
    if (pattern[p] === '*') {
      star = p++
      resume = t
    } else if (pattern[p] === text[t]) {
      p++
      t++
    } else if (star >= 0) {
      p = star + 1
      t = ++resume
    } else return false
  }
  while (pattern[p] === '*') p++
  return p === pattern.length
}

/** Whether a pattern names this version of the package; one without a constraint names every version. */
export function matchesVersion(pattern: string, packageName: string, normalized: string): boolean {
  if (!matchesName(pattern, packageName)) return false
  const { constraint } = parts(pattern)
  return constraint === null || satisfies(normalized, constraint)
}

/** Whether a version passes an upstream's patterns: allowed by one, or there are none, and denied by none. */
export function isOffered(
  { allow, deny }: { allow: readonly string[]; deny: readonly string[] },
  packageName: string,
  normalized: string,
): boolean {
  const names = (pattern: string) => matchesVersion(pattern, packageName, normalized)
  return (allow.length === 0 || allow.some(names)) && !deny.some(names)
}

function parts(pattern: string): { name: string; constraint: string | null } {
  const colon = pattern.indexOf(':')
  if (colon < 0) return { name: pattern, constraint: null }
  return { name: pattern.slice(0, colon), constraint: pattern.slice(colon + 1) }
}

import {
  compareNormalized,
  modifier,
  normalizeVersion,
  stabilityOf,
  trimSpaces,
  withoutAlias,
} from '../../composer/composer-version.ts'

type Operator = '==' | '!=' | '<' | '<=' | '>' | '>='
type Comparison = readonly [Operator, string]

const numbers = '(\\d+)(?:\\.(\\d+))?(?:\\.(\\d+))?(?:\\.(\\d+))?'
const version = `v?${numbers}(?:${modifier}|\\.([x*][.-]?dev))(?:\\+[^ ]+)?`
const tilde = new RegExp(`^~${version}$`, 'i')
const caret = new RegExp(`^\\^${version}$`, 'i')
const anything = /^v?[x*](?:\.[x*])*$/i
const wildcard = /^v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:\.[xX*])+$/
const hyphenRange = new RegExp(`^(${version}) +- +(${version})$`, 'i')
const comparison = /^(<>|!=|>=?|<=?|==?)? *(.*)$/s
const conjunction = /(?<!^|as|[=>< ,]) *(?<!-)[, ](?!-) *(?!,|as|$)/
const stabilitySuffix = new RegExp(`-${modifier}$`, 'i')

/**
 * Returns whether a normalized version satisfies a constraint, like Composer's `Semver`. False for a constraint that
 * cannot be parsed.
 */
export function satisfies(normalized: string, constraint: string): boolean {
  return readConstraint(constraint)(normalized)
}

/** Returns `satisfies` for one constraint, to compare it with many versions. */
export function readConstraint(constraint: string): (normalized: string) => boolean {
  const alternatives = alternativesOf(constraint)
  return (normalized) =>
    alternatives.some((all) => all.every((some) => some?.every((one) => matches(normalized, one))))
}

/**
 * Returns the comparisons of a constraint with normalized versions: a version satisfies all comparisons of one of the lists. Null
 * for a constraint that cannot be parsed.
 */
export function readComparisons(constraint: string): Comparison[][] | null {
  const alternatives = alternativesOf(constraint).map((all) =>
    all.includes(null) ? null : all.flatMap((some) => some ?? []),
  )
  return alternatives.includes(null) ? null : (alternatives as Comparison[][])
}

function alternativesOf(constraint: string): (Comparison[] | null)[][] {
  return trimSpaces(constraint)
    .split(/\|\|?/)
    .map((alternative) => trimSpaces(alternative).split(conjunction).map(comparisonsOf))
}

/** Returns the comparisons of a single constraint. Null when it cannot be parsed. */
function comparisonsOf(text: string): Comparison[] | null {
  const bare = withoutAlias(text)
    .replace(/^([^, ]*)@(?:stable|RC|beta|alpha|dev)$/i, (_, rest: string) => rest || '*')
    .replace(/^(dev-[^, @]+?|[^, @]+?\.x-dev)#.+$/is, '$1')
  if (anything.test(bare)) return []
  const [, flag = ''] = /@(RC|beta|alpha|dev)$/i.exec(text) ?? []
  return tildeRange(bare) ?? caretRange(bare) ?? wildcardRange(bare) ?? hyphen(bare) ?? single(bare, flag)
}

function tildeRange(text: string): Comparison[] | null {
  const found = tilde.exec(text)
  if (!found) return null
  const [, major, minor, patch, build, , , , branch] = found
  const given = [major, minor, patch, build].filter((part) => part !== undefined).length + (branch ? 1 : 0)
  return range(lowest(text.slice(1), found.slice(5, 9)), bump(found, Math.max(1, given - 1), 1))
}

function caretRange(text: string): Comparison[] | null {
  const found = caret.exec(text)
  if (!found) return null
  const [, major, minor, patch] = found
  const place =
    Number(major) !== 0 || minor === undefined ? 1 : Number(minor) !== 0 || patch === undefined ? 2 : 3
  return range(lowest(text.slice(1), found.slice(5, 9)), bump(found, place, 1))
}

function wildcardRange(text: string): Comparison[] | null {
  const found = wildcard.exec(text)
  if (!found) return null
  const place = found.slice(1).filter((part) => part !== undefined).length
  return range(bump(found, place, 0), bump(found, place, 1))
}

function hyphen(text: string): Comparison[] | null {
  const found = hyphenRange.exec(text)
  if (!found) return null
  const [, from = ''] = found
  const to = found[10] ?? ''
  const upper = found.slice(10)
  const [, , minor, patch, , word, , dev, branch] = upper
  const low = normalizeVersion(lowest(from, found.slice(6, 10)))
  if (low === null) return null
  if ((minor !== undefined && patch !== undefined) || word || dev || branch) {
    const high = normalizeVersion(to)
    return high === null
      ? null
      : [
          ['>=', low],
          ['<=', high],
        ]
  }
  return [
    ['>=', low],
    ['<', bump(upper, minor === undefined ? 1 : 2, 1)],
  ]
}

function single(text: string, flag: string): Comparison[] | null {
  const [, sign = '==', rest = ''] = comparison.exec(text) ?? []
  const normalized =
    normalizeVersion(rest) ??
    (/^[0-9a-zA-Z./-]*-dev$/.test(rest) ? normalizeVersion(`dev-${rest.slice(0, -4)}`) : null)
  if (normalized === null) return null
  const operator = (sign === '=' ? '==' : sign === '<>' ? '!=' : sign) as Operator
  if (operator !== '==' && flag !== '' && stabilityOf(normalized) === 'stable') {
    return [[operator, `${normalized}-${flag}`]]
  }
  const isLoose =
    (operator === '<' || operator === '>=') && !stabilitySuffix.test(rest) && !/^dev-/.test(rest)
  return [[operator, isLoose && !normalized.endsWith('-dev') ? `${normalized}-dev` : normalized]]
}

/** Returns the lower bound of a version. Without a stability, it is the version's first development version. */
function lowest(text: string, suffix: (string | undefined)[]): string {
  const [word, , dev, branch] = suffix
  return word || dev || branch ? text : `${text}-dev`
}

function range(low: string, high: string): Comparison[] | null {
  const normalized = normalizeVersion(low)
  return normalized === null
    ? null
    : [
        ['>=', normalized],
        ['<', high],
      ]
}

/** Increases the number at a place by `by`, and sets the following numbers to zero. */
function bump(found: readonly (string | undefined)[], place: number, by: number): string {
  const parts = [1, 2, 3, 4].map((i) =>
    i < place ? Number(found[i] ?? 0) : i === place ? Number(found[i] ?? 0) + by : 0,
  )
  return `${parts.join('.')}-dev`
}

function matches(normalized: string, [operator, bound]: Comparison): boolean {
  const isBranch = normalized.startsWith('dev-')
  if (isBranch || bound.startsWith('dev-')) {
    if (operator === '==') return normalized === bound
    return operator === '!=' && normalized !== bound
  }
  const order = compareNormalized(normalized, bound)
  if (operator === '==') return order === 0
  if (operator === '!=') return order !== 0
  if (operator === '<') return order < 0
  if (operator === '<=') return order <= 0
  return operator === '>' ? order > 0 : order >= 0
}

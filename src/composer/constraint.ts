import { isPlainText } from '../domain/plain-text.ts'
import { modifier, normalizeVersion, trimSpaces, withoutAlias } from './composer-version.ts'

/** The maximum length of a constraint. The longest known ones list vulnerable versions in a few hundred characters. */
export const maxConstraintLength = 4096

const version = `v?\\d+(?:\\.\\d+)?(?:\\.\\d+)?(?:\\.\\d+)?(?:${modifier}|\\.([x*][.-]?dev))(?:\\+[^ ]+)?`
const tildeOrCaret = new RegExp(`^[~^]${version}$`, 'i')
const hyphenRange = new RegExp(`^(${version}) +- +(${version})$`, 'i')
const anything = /^v?[x*](?:\.[x*])*$/i
const wildcard = /^v?\d+(?:\.\d+)?(?:\.\d+)?(?:\.[xX*])+$/
const comparison = /^(?:<>|!=|>=?|<=?|==?)? *(.*)$/s
const branchLike = /^[0-9a-zA-Z./-]*-dev$/

/** Splits at commas and spaces, but not around `as`, after an operator, or at the dash of a hyphen range. */
const conjunction = /(?<!^|as|[=>< ,]) *(?<!-)[, ](?!-) *(?!,|as|$)/

/**
 * Returns whether Composer's parser accepts a version constraint. A refused constraint would break every project that
 * loads the package. Control characters that Composer accepts are refused, because a terminal would execute them.
 */
export function isConstraint(constraint: string): boolean {
  if (constraint.length > maxConstraintLength || !isPlainText(constraint)) return false
  return trimSpaces(constraint)
    .split(/\|\|?/)
    .flatMap((alternative) => trimSpaces(alternative).split(conjunction))
    .every(isSingleConstraint)
}

function isSingleConstraint(text: string): boolean {
  const bare = withoutReference(withoutStabilityFlag(withoutAlias(text)))
  if (anything.test(bare)) return true

  const range = tildeOrCaret.exec(bare)
  if (range) {
    const [, word, , dev, branch] = range
    const lowest = word || dev || branch ? bare : `${bare}-dev`
    return isVersion(lowest.slice(1))
  }
  if (wildcard.test(bare)) return true

  const [, from, , , , , to] = hyphenRange.exec(bare) ?? []
  if (from !== undefined && to !== undefined) return isVersion(from) && isVersion(to)

  const compared = comparison.exec(bare)?.[1] ?? ''
  return isVersion(compared) || branchLike.test(compared)
}

function isVersion(text: string): boolean {
  return normalizeVersion(text) !== null
}

function withoutStabilityFlag(text: string): string {
  const [, rest] = /^([^, ]*)@(?:stable|RC|beta|alpha|dev)$/i.exec(text) ?? []
  return rest === undefined ? text : rest || '*'
}

/** Removes the commit of a branch, such as in dev-main#1a2b3c. Composer allows it in a root package only. */
function withoutReference(text: string): string {
  return text.replace(/^(dev-[^, @]+?|[^, @]+?\.x-dev)#.+$/is, '$1')
}

import { matchesGlob } from '../domain/glob.ts'

/** A longer text is one name, which no rule has. */
const maxExpressionLength = 1_000

/** The licence of packages that name none. */
export const noLicense = 'NONE'

/**
 * Returns whether somebody who may not use the denied licences cannot use a package. Composer lets people choose one of the
 * licences. Each is an SPDX expression: with `or` one alternative is enough, with `and` all are necessary. Composer reads the
 * words in lower case, too. A text that is no expression is the name of a licence.
 */
export function needsDeniedLicense(
  licenses: readonly string[],
  isDenied: (license: string) => boolean,
): boolean {
  const known = licenses.length === 0 ? [noLicense] : licenses
  return known.every((license) => needsDenied(license, isDenied))
}

/**
 * Returns a function that returns whether patterns match a licence. `GPL-3.0` also matches `GPL-3.0-only`, `GPL-3.0-or-later`
 * and `GPL-3.0+`, while `GPL-3.0-only` matches only itself and the old name `GPL-3.0`. `*` matches any characters.
 */
export function readLicensePatterns(patterns: readonly string[]): (license: string) => boolean {
  const wanted = patterns.map(currentName)
  return (license) => {
    const name = currentName(license)
    const names = [name, name.replace(/-(?:only|or-later)$/, ''), `${name}-only`]
    return wanted.some((pattern) => names.some((one) => matchesGlob(pattern, one)))
  }
}

/** `GPL-3.0+` is the old name of `GPL-3.0-or-later`. Case does not matter in names of licences. */
function currentName(license: string): string {
  return license.toLowerCase().replace(/\+$/, '-or-later')
}

function needsDenied(expression: string, isDenied: (license: string) => boolean): boolean {
  const words = expression.length > maxExpressionLength ? [] : (expression.match(/[()]|[^\s()]+/g) ?? [])
  let at = 0
  const result = alternatives()
  return result === null || at < words.length ? isDenied(expression.trim()) : result

  // Each function reads a part, and returns null when the text is no expression.
  function alternatives(): boolean | null {
    let denied = conjunction()
    while (denied !== null && takeWord('or'))
      denied = both(denied, conjunction(), (one, other) => one && other)
    return denied
  }

  function conjunction(): boolean | null {
    let denied = unit()
    while (denied !== null && takeWord('and')) denied = both(denied, unit(), (one, other) => one || other)
    return denied
  }

  function unit(): boolean | null {
    if (takeWord('(')) {
      const denied = alternatives()
      return takeWord(')') ? denied : null
    }
    const license = words[at]
    if (license === undefined || /^(?:\(|\)|or|and|with)$/i.test(license)) return null
    at += 1
    // An exception allows more, but the licence stays.
    if (takeWord('with') && words[at++] === undefined) return null
    return isDenied(license)
  }

  function takeWord(word: string): boolean {
    if (words[at]?.toLowerCase() !== word) return false
    at += 1
    return true
  }
}

function both(
  one: boolean,
  other: boolean | null,
  combine: (one: boolean, other: boolean) => boolean,
): boolean | null {
  return other === null ? null : combine(one, other)
}

import { describe, expect, it } from 'vitest'
import { needsDeniedLicense, readLicensePatterns } from '../../src/composer/license-expression.ts'

describe('needsDeniedLicense', () => {
  it.each<[string[], string[], boolean]>([
    [['MIT'], ['MIT'], true],
    [['MIT'], ['mit'], true],
    [['MIT'], ['GPL-3.0'], false],
    // Composer lets people choose one of the licences.
    [['MIT', 'GPL-3.0-only'], ['GPL-*'], false],
    [['GPL-2.0-only', 'GPL-3.0-only'], ['GPL-*'], true],
    [['MIT or GPL-3.0'], ['GPL-3.0'], false],
    [['(MIT OR GPL-3.0-only)'], ['GPL-3.0-only', 'MIT'], true],
    [['MIT and GPL-3.0-only'], ['GPL-3.0-only'], true],
    // "and" binds more strongly than "or".
    [['MIT or Apache-2.0 and GPL-3.0-only'], ['GPL-3.0-only'], false],
    [['(MIT or Apache-2.0) and GPL-3.0-only'], ['GPL-3.0-only'], true],
    [['GPL-2.0-only WITH Classpath-exception-2.0'], ['GPL-2.0-only'], true],
    [['GPL-2.0-only WITH Classpath-exception-2.0 OR MIT'], ['GPL-2.0-only'], false],
    [[], ['NONE'], true],
    [[], ['MIT'], false],
    [['MIT'], ['NONE'], false],
    [['proprietary'], ['proprietary'], true],
    // No expressions: the name of a licence.
    [['GPL or'], ['GPL-3.0'], false],
    [['GPL see LICENSE'], ['GPL*'], true],
    [['(MIT'], ['MIT'], false],
    [['MIT)'], ['MIT'], false],
    [['('.repeat(100_000)], ['MIT'], false],
  ])('of %j, with %j denied: %s', (licenses, denied, expected) => {
    expect(needsDeniedLicense(licenses, readLicensePatterns(denied))).toBe(expected)
  })

  it.each<[string, string[], string[]]>([
    ['GPL-3.0', ['GPL-3.0', 'GPL-3.0-only', 'GPL-3.0-or-later', 'GPL-3.0+'], ['GPL-2.0', 'LGPL-3.0']],
    ['GPL-3.0-only', ['GPL-3.0', 'GPL-3.0-only'], ['GPL-3.0-or-later', 'GPL-3.0+']],
    ['GPL-3.0-or-later', ['GPL-3.0-or-later', 'GPL-3.0+'], ['GPL-3.0', 'GPL-3.0-only']],
    ['LGPL-*', ['LGPL-2.1-only'], ['GPL-2.0-only', 'MIT']],
  ])('%s matches names of the same licence', (pattern, matching, others) => {
    const matches = readLicensePatterns([pattern])
    expect(matching.filter(matches)).toEqual(matching)
    expect(others.filter(matches)).toEqual([])
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readVersion } from '../../src/composer/composer-version.ts'
import { isConstraint, maxConstraintLength } from '../../src/composer/constraint.ts'
import { semvers } from './composer-strings.ts'

describe('isConstraint', () => {
  it.each([
    ...[
      '*',
      'x',
      'v*',
      '*.*',
      '1.*',
      '1.0.x',
      '1.0.0.*',
      '1',
      '1.0',
      'v1.0.0',
      '=1.0',
      '==1.0',
      '!=1.0',
      '<>1.0',
    ],
    ...[
      '>=1.0',
      '> 1.0',
      '<1.0-beta',
      '>=1.0@dev',
      '@dev',
      '@stable',
      '1.0@RC',
      '^1.0',
      '^0.0.3',
      '^v1.0',
      '^1.0@beta',
    ],
    ...['~1', '~1.2.3.4', '~1.0-dev', '~1.x-dev', '^1-', '1.0 - 2.0', '1.0.0-beta - 2', '1 - 20260101'],
    ...['>=1.0 <2.0', '>=1.0,<2.0', '>=1.0 , <2.0', '^1.0 || ^2.0', '^1.0|^2.0', '>=1 <2 || >=3, !=3.5 <4'],
    ...[
      'dev-main',
      'dev-feature/x',
      'main-dev',
      'foo/bar-dev',
      '1.x-dev',
      '2.0.x-dev#a1b2',
      'dev-main#abc',
      'dev-#',
    ],
    ...[
      'dev-main as 1.0.x-dev',
      '1.0.x-dev as 1.1',
      'master',
      '20260101',
      '^20260101',
      '^12345678901234567890',
    ],
    ...['1.0+build', '^1.0+build', ' ^1.0 ', 'dev-größe', '>=foo-dev', '1.0 as 2.0', '^100000.0.0'],
  ])('accepts %j', (constraint) => {
    expect(isConstraint(constraint)).toBe(true)
  })

  it.each([
    ...[
      '',
      ' ',
      'foo',
      '1.0 ||',
      '|| 1.0',
      '1.0 ||| 2.0',
      '1.0,',
      ',1.0',
      '1.0,,2.0',
      '~>1.0',
      '^^1.0',
      '=>1.0',
      '!1.0',
    ],
    ...[
      '^',
      '~',
      '>=',
      '^*',
      '~x',
      '^ 1.0',
      '1.0 -',
      '- 1.0',
      '1.0 - foo',
      '1.0 - 2.0 - 3.0',
      '1.0.0.0.0',
      '1..0',
    ],
    ...[
      '100000.0.0',
      '12345678901234567890',
      '>100000.0.0',
      '1.0-foo',
      '^1.0-foo',
      '^1.2.3.4.x-dev',
      'latest',
      '#abc',
    ],
    ...[
      '1.0#abc',
      '1.0@foo',
      '@',
      '1.0@ dev',
      'dev-\ud800',
      'dev-a\u202e',
      '1.0\u2028',
      'not a version!!',
      '*.1',
      'X.X.1',
      '\u00a01.0',
      '>= 1.0 - 2.0',
      'vv1',
    ],
  ])('refuses %j', (constraint) => {
    expect(isConstraint(constraint)).toBe(false)
  })

  it.each([
    'dev-\u001b[31m',
    'dev-main#\u001b[31m',
    '1.0 as \u0007',
    '^1.0 ||\n^2.0',
    '>=\t1.0',
    'dev-a\u009b',
    '1.0\n',
  ])('refuses the control characters of %j, as Composer would not', (constraint) => {
    expect(isConstraint(constraint)).toBe(false)
  })

  it('accepts every published version, because self.version is replaced by it', () => {
    fc.assert(fc.property(semvers, (version) => isConstraint(readVersion(version).composerVersion)))
  })

  it('reads 4096 characters, and no more', () => {
    const longest = '1.0||'.repeat(818).padEnd(maxConstraintLength, '1')
    expect(isConstraint(longest)).toBe(true)
    expect(isConstraint(`${longest}1`)).toBe(false)
  })

  // A pattern that matches a character in two ways would never finish with these texts.
  it.each([
    ['numbers', '^1.0-alpha', '1'],
    ['numbers with dots', '^1.0-alpha', '.1'],
    ['wildcards', '1', '.x'],
    ['bare wildcards', '', 'x.'],
    ['spaces', '1.0', ' '],
    ['spaces and commas', '1.0', ' ,'],
    ['hyphens', '1.0', ' - '],
    ['references', 'dev-a', '#'],
    ['aliases', 'a', ' as '],
    ['flags', '', '@dev'],
    ['alternatives', '1.0', ' | '],
    ['builds', '^1.0', '+a'],
    ['operators', '', '<>'],
    ['dashes', '', '-dev'],
  ])('refuses very many %s at once', (_, start, pump) => {
    expect(isConstraint(`${start}${pump.repeat((maxConstraintLength - 16) / pump.length)} !`)).toBe(false)
    expect(isConstraint(`${start}${pump.repeat(1_000_000)} !`)).toBe(false)
  })
})

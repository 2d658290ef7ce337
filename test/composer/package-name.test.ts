import { describe, expect, it } from 'vitest'
import {
  isPackageName,
  isPlatformName,
  maxPackageNameLength,
  readPackageName,
} from '../../src/composer/package-name.ts'

describe('isPackageName', () => {
  it.each([
    'acme/lib',
    'a/b',
    '0/1',
    'a.b-c_d/e.f-g_h',
    'acme/a--b',
    'acme/json',
    'acme/x.json5',
    'acme/console',
    'acme/com10',
  ])('takes %s', (name) => {
    expect(isPackageName(name)).toBe(true)
  })

  it.each([
    ...[
      '',
      '/',
      'acme',
      'acme/',
      '/lib',
      'acme/lib/x',
      'Acme/lib',
      'acme/Lib',
      'acme lib',
      '-acme/lib',
      'acme-/lib',
    ],
    ...[
      'acme/.lib',
      'acme/lib.',
      'a..b/c',
      'a--b/c',
      'acme/a---b',
      'acme/a__b',
      'acme/a_-b',
      'acme/lib~dev',
      'acmé/lib',
    ],
    ...[
      'acme/../lib',
      '../lib',
      'acme/lib.json',
      'nul/lib',
      'acme/con',
      'com1/x',
      'acme/lpt9',
      'acme/lib\n',
      'acme/lib%00',
    ],
  ])('refuses %j', (name) => {
    expect(isPackageName(name)).toBe(false)
  })

  it('accepts 150 characters and refuses 151', () => {
    const longest = `a/${'b'.repeat(maxPackageNameLength - 2)}`
    expect(isPackageName(longest)).toBe(true)
    expect(isPackageName(`${longest}b`)).toBe(false)
  })

  // A pattern that matches a character in two ways would never finish with these texts.
  it.each(['a', 'a-', 'a.', '--', 'a/a'])('refuses many repetitions of %j without delay', (pump) => {
    expect(isPackageName(`${pump.repeat(140 / pump.length)}!`)).toBe(false)
    expect(isPackageName(`a/${pump.repeat(130 / pump.length)}!`)).toBe(false)
  })
})

describe('isPlatformName', () => {
  it.each([
    'php',
    'php-64bit',
    'hhvm',
    'ext-json',
    'ext-a_b',
    'lib-icu',
    'composer',
    'composer-plugin-api',
    'composer-runtime-api',
  ])('takes %s', (name) => {
    expect(isPlatformName(name)).toBe(true)
  })

  it.each(['php-7', 'ext-', 'ext', 'lib-', 'ext-a--b', 'composer-api', 'phpx', 'ext-json\n', ''])(
    'refuses %j',
    (name) => {
      expect(isPlatformName(name)).toBe(false)
    },
  )
})

describe('readPackageName', () => {
  it('returns the name in lower case', () => {
    expect(readPackageName('Acme/Lib')).toBe('acme/lib')
  })

  it('refuses everything else with errcode 3', () => {
    expect(() => readPackageName('acme')).toThrow(expect.objectContaining({ errcode: 3, status: 400 }))
  })

  it('does not treat the Kelvin sign as a k', () => {
    expect(() => readPackageName('acme/\u212ait')).toThrow('invalid package name')
  })
})

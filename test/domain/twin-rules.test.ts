import { describe, expect, it } from 'vitest'
import { isPackageName, isVendorName } from '../../src/composer/package-name.ts'
import { imageTypeOf } from '../../src/domain/image-type.ts'
import { nameShape } from '../../src/domain/names.ts'
import { roles } from '../../src/domain/permissions.ts'
import { isPlainText } from '../../src/domain/plain-text.ts'
import { allScopes, coversAll } from '../../src/domain/scopes.ts'
import { isPattern, matchesName } from '../../src/upstreams/documents/patterns.ts'
import { isClientId } from '../../src/web/oauth/logo.ts'
import { useDatabase } from '../support/database.ts'
import {
  checkInSql,
  coversInSql,
  imageTypesInSql,
  matchesInSql,
  rolesInSql,
  unsafeCodePointsInSql,
  usernameMistakeInSql,
} from '../support/sql-rules.ts'

/** Returns all texts of at most `most` of these parts, the empty one too. */
function textsOf(parts: readonly string[], most: number): string[] {
  let texts = ['']
  const all = [...texts]
  for (let length = 1; length <= most; length += 1) {
    texts = texts.flatMap((text) => parts.map((part) => text + part))
    all.push(...texts)
  }
  return all
}

/** What the verdicts of the two rules differ on. */
function differences<Case, Verdict>(
  cases: readonly Case[],
  one: (value: Case) => Verdict,
  other: readonly Verdict[],
): Case[] {
  expect(other).toHaveLength(cases.length)
  return cases.filter((value, i) => one(value) !== other[i])
}

describe('rules that TypeScript and SQL both have', () => {
  const database = useDatabase()

  it('agree about every character of plain text', async () => {
    const points = Array.from({ length: 0x110000 }, (_, n) => n).filter(
      (n) => n > 0 && (n < 0xd800 || n > 0xdfff),
    )
    const unsafe = points.filter((n) => !isPlainText(String.fromCodePoint(n)))
    expect(await unsafeCodePointsInSql(database.db)).toEqual(unsafe)
  })

  it('agree about the scopes that several others cover', async () => {
    for (let i = 0; i < allScopes.length; i += 1) {
      // Each set has other neighbours, with and without their `:rw`.
      const granted = allScopes.filter((_, j) => (j * (i + 3)) % 7 < 2)
      const verdicts = await coversInSql(database.db, granted, allScopes)
      expect(differences(allScopes, (asked) => coversAll(granted, [asked]), verdicts)).toEqual([])
    }
  })

  it('agree about the order of roles', async () => {
    expect(await rolesInSql(database.db)).toEqual(roles)
  })

  const names = [
    ...textsOf(['a', '0', 'A', '.', '-', '_', ' '], 4),
    ...['é', 'a\n', 'a/b', 'ａ', 'a'.repeat(39)],
  ]

  it.each([
    ['username_is_well_formed', 'username'],
    ['group_name_is_well_formed', 'name'],
    ['repository_name_is_well_formed', 'name'],
    ['upstream_name_is_well_formed', 'name'],
  ])('agree about names: %s', async (constraint, column) => {
    const verdicts = await checkInSql(database.db, constraint, column, names)
    expect(differences(names, (name) => nameShape.test(name), verdicts)).toEqual([])
  })

  it('agree about usernames, as a function checks them before they are written', async () => {
    const usernames = [...textsOf(['a', '0', 'A', '.', '_'], 3), 'a'.repeat(39), 'a'.repeat(40)]
    const verdicts = await checkInSql(database.db, 'username_is_well_formed', 'username', usernames)
    const mistakes: (string | null)[] = []
    for (const username of usernames) mistakes.push(await usernameMistakeInSql(database.db, username))
    expect(mistakes).toEqual(verdicts.map((isGood) => (isGood ? null : 'username_is_well_formed')))
  })

  it.each([7, 8, 64, 65])('agree about client ids of %i characters', async (length) => {
    const ids = ['a', '0', 'A', '-', 'é', ' '].map((end) => 'a'.repeat(length - 1) + end)
    const constraint = 'client_id_is_8_to_64_lower_case_letters_and_digits'
    const verdicts = await checkInSql(database.db, constraint, 'client_id', ids)
    expect(differences(ids, isClientId, verdicts)).toEqual([])
  })

  it('let the tables store every package and vendor that Composer accepts', async () => {
    const words = textsOf(['a', '0', '.', '-', '_'], 4)
    const packages = [...words.map((word) => `a/${word}`), ...words.map((word) => `${word}/a`)]
    const stored = (constraint: string, column: string, values: string[]) =>
      checkInSql(database.db, constraint, column, values)
    const good = packages.filter(isPackageName)
    expect(good.length).toBeGreaterThan(100)
    expect(new Set(await stored('package_name_is_lower_case_vendor_and_package', 'name', good))).toEqual(
      new Set([true]),
    )
    expect(new Set(await stored('mirrored_name_is_lower_case_vendor_and_package', 'name', good))).toEqual(
      new Set([true]),
    )
    const vendors = words.filter(isVendorName)
    expect(vendors).toEqual(words.filter((word) => isPackageName(`${word}/a`)))
    expect(new Set(await stored('vendor_is_lower_case_max_100_characters', 'vendor', vendors))).toEqual(
      new Set([true]),
    )
  })

  it('agree about the type of an image, also of the beginning of one', async () => {
    const whole = [
      '\x89PNG\r\n\x1a\n....',
      '\xff\xd8\xff\xe0....',
      'GIF87a......',
      'GIF89a......',
      'GIF88a......',
      'RIFF....WEBP',
      'RIFF\n\n\n\nWEBP',
      'RIFF....WAVE',
      '<svg xmlns=""',
    ].map((text) => Buffer.from(text, 'latin1'))
    const images = whole.flatMap((image) => [
      ...Array.from(image.keys(), (length) => image.subarray(0, length)),
      image,
      ...Array.from(image.keys(), (at) => Buffer.from(image.map((byte, i) => (i === at ? byte ^ 1 : byte)))),
    ])
    const types = await imageTypesInSql(database.db, images)
    expect(new Set(types)).toEqual(new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp', null]))
    expect(differences(images, imageTypeOf, types)).toEqual([])
  })

  it('agree about the packages that a pattern matches', async () => {
    const packages = textsOf(['a', 'b', '_'], 2).flatMap((vendor) =>
      ['a', 'ab', 'a_b', 'a.b'].map((name) => `${vendor}/${name}`),
    )
    const patterns = [
      ...textsOf(['a', '_', '*'], 2).flatMap((vendor) =>
        ['*', 'a', '*b', 'a*b', 'a.*'].map((name) => `${vendor}/${name}`),
      ),
      '*',
      'a/*:^6 || ^7',
    ].filter(isPattern)
    for (const pattern of patterns) {
      const verdicts = await matchesInSql(database.db, packages, [pattern])
      expect([pattern, differences(packages, (name) => matchesName(pattern, name), verdicts)]).toEqual([
        pattern,
        [],
      ])
    }
  })
})

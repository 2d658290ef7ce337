import { describe, expect, it } from 'vitest'
import { isPackageName, isVendorName } from '../../src/composer/package-name.ts'
import { readConfig } from '../../src/config.ts'
import { isEmail } from '../../src/domain/email.ts'
import { imageTypeOf } from '../../src/domain/image-type.ts'
import { nameShape } from '../../src/domain/names.ts'
import { roles } from '../../src/domain/permissions.ts'
import { isPlainText } from '../../src/domain/plain-text.ts'
import { coversResources } from '../../src/domain/resources.ts'
import { allScopes, coversAll } from '../../src/domain/scopes.ts'
import { listMistakes } from '../../src/oauth/application-rules.ts'
import { isClientId } from '../../src/oauth/client-id.ts'
import { checkRedirectUri } from '../../src/oauth/redirect-uri.ts'
import { isPattern, matchesName } from '../../src/upstreams/documents/patterns.ts'
import { isCodeChallenge } from '../../src/web/oauth/authorize-request.ts'
import { useDatabase } from '../support/database.ts'
import {
  checkInSql,
  coversInSql,
  coversResourcesInSql,
  emailMistakesInSql,
  imageTypesInSql,
  matchesInSql,
  rolesInSql,
  unsafeCodePointsInSql,
  usernameMistakesInSql,
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

  it('agree about the resources that others cover', async () => {
    const parts = ['/', '/api', '/acme/php/-/packages/', '/acme/js/-/packages/']
    const sets = [
      null,
      ...textsOf(['0', '1', '2', '3'], 3).map((text) => text.split('').map((i) => parts[Number(i)] ?? '')),
    ]
    const pairs = sets.flatMap((granted) => sets.map((asked) => ({ granted, asked })))
    const verdicts = await coversResourcesInSql(database.db, pairs)
    expect(differences(pairs, ({ granted, asked }) => coversResources(granted, asked), verdicts)).toEqual([])
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
    const mistakes = await usernameMistakesInSql(database.db, usernames)
    expect(mistakes).toEqual(verdicts.map((isGood) => (isGood ? null : 'username_is_well_formed')))
  })

  it.each([7, 8, 64, 65])('agree about client ids of %i characters', async (length) => {
    const ids = ['a', '0', 'A', '-', 'é', ' '].map((end) => 'a'.repeat(length - 1) + end)
    const constraint = 'client_id_is_8_to_64_lower_case_letters_and_digits_or_a_url'
    const verdicts = await checkInSql(database.db, constraint, 'client_id', ids)
    expect(differences(ids, isClientId, verdicts)).toEqual([])
  })

  it('agree about URLs as client ids', async () => {
    const starts = ['http://', 'https://', 'https:/', 'HTTPS://', 'ftp://', ' https://']
    const ids = starts.flatMap((start) => [
      ...['', 'a', 'a b', 'é', 'a\n', 'a%20?b#c'].map((rest) => start + rest),
      ...[255, 256].map((length) => start.padEnd(length, 'a')),
    ])
    const constraint = 'client_id_is_8_to_64_lower_case_letters_and_digits_or_a_url'
    const verdicts = await checkInSql(database.db, constraint, 'client_id', ids)
    expect(differences(ids, isClientId, verdicts)).toEqual([])
  })

  it('agree about code challenges', async () => {
    const characters = Array.from({ length: 127 }, (_, n) => String.fromCharCode(n + 1))
    const challenges = [42, 43, 128, 129].flatMap((length) =>
      [...characters, 'é', '\n'].map((end) => 'a'.repeat(length - 1) + end),
    )
    const constraint = 'authorization_request_code_challenge_check'
    const verdicts = await checkInSql(database.db, constraint, 'code_challenge', challenges)
    expect(differences(challenges, isCodeChallenge, verdicts)).toEqual([])
  })

  it('agree about emails in ASCII, and the tables store all others that TypeScript accepts', async () => {
    const characters = Array.from({ length: 127 }, (_, n) => String.fromCharCode(n + 1))
    const around = ['é', '\u0085', '\u00a0', '\u200b', '\u2003', '\u2028', '\u3000', '\ufeff', '😀']
    const emails = [
      ...textsOf(['a', '@', '.', ' '], 5),
      ...[...characters, ...around].flatMap((part) => [
        `${part}@b`,
        `a${part}b@c`,
        `a@${part}`,
        `a@b${part}`,
      ]),
      ...[253, 254, 255].map((length) => `${'a'.repeat(length - 2)}@b`),
    ]
    const verdicts = [
      await checkInSql(database.db, 'email_is_an_address_max_254_characters', 'email', emails),
      await checkInSql(database.db, 'invitation_email_is_an_address_max_254_characters', 'email', emails),
    ]
    const mistakes = await emailMistakesInSql(database.db, emails)
    verdicts.push(mistakes.map((mistake) => mistake === null))
    for (const stored of verdicts) {
      const differing = differences(emails, isEmail, stored)
      expect(differing.filter((email) => /^[ -~]*$/.test(email) || isEmail(email))).toEqual([])
    }
  })

  /** URLs of which one part has each character of ASCII, and others that are almost URLs. */
  const urls = [
    ...Array.from({ length: 129 }, (_, n) => String.fromCharCode(n + 1)).flatMap((part) => [
      `https://${part}`,
      `https://a${part}b`,
      `https://a/${part}`,
      `https://a?${part}`,
    ]),
    ...textsOf(['http', 's', ':', '/', 'a', '?'], 4),
    ...['http://[::1]:8080/', 'http://a:99999', 'HTTPS://a', 'https://a/?code=1', 'https://é.example/', ''],
    ...[
      'https://a@b',
      'https://a/@b',
      'https://a?@',
      'https://a:b@c/',
      'https://a/\u202e',
      'https://a\u2003',
    ],
  ]
  const lengthened = (most: number) =>
    [most - 1, most, most + 1].map((length) => `https://a/${'b'.repeat(length - 10)}`)

  it('agree about websites that can be parsed, and the table stores each that TypeScript accepts', async () => {
    const websites = [...urls, ...lengthened(128), `https://a/${'😀'.repeat(118)}`]
    const constraints = [
      'application_website_is_a_web_address_max_128_characters',
      'application_website_is_plain_text',
      'application_website_has_no_userinfo',
    ]
    const verdicts = await Promise.all(
      constraints.map((constraint) => checkInSql(database.db, constraint, 'website', websites)),
    )
    const stored = websites.map((_, i) => verdicts.every((verdict) => verdict[i]))
    const isWebsite = (website: string) =>
      listMistakes(
        {
          name: 'Bot',
          description: null,
          website,
          redirectUri: 'https://a/',
          isPublic: false,
          isResourceServer: false,
          scopes: allScopes,
          logo: null,
        },
        readConfig({}),
      ).length === 0
    expect(
      differences(websites, isWebsite, stored).filter((url) => URL.canParse(url) || isWebsite(url)),
    ).toEqual([])
  })

  it('agree about redirect URIs, and TypeScript also refuses what only a parser of URLs sees', async () => {
    const schemes = ['com.example.app', 'c+m.x-1', 'com', 'javascript', 'COM.example', 'com.', '.com', '1a.b']
    const uris = [
      ...urls,
      ...lengthened(2000),
      ...schemes.flatMap((scheme) =>
        ['/', '/cb?x=1', '//cb', 'cb', '', '/a#b'].map((rest) => `${scheme}:${rest}`),
      ),
    ]
    const constraint = 'application_redirect_uri_is_http_without_userinfo_or_fragment'
    const stored = await checkInSql(database.db, constraint, 'redirect_uri', uris)
    const refusalOf = (uri: string) =>
      checkRedirectUri(uri, { redirectUri: uri, exactRedirect: true, isPublic: true }, []).refusal ?? null
    const differing = differences(uris, (uri) => refusalOf(uri) === null, stored)
    const reasons = differing.map((uri) => refusalOf(uri)?.replace(/ \(.*|\.$/, '') ?? `${uri} is accepted`)
    // A host that has a percent sign or other characters than ASCII, a query of an authorization response, a bad port.
    expect(new Set(reasons)).toEqual(
      new Set([
        'redirect_uri contains characters that must be percent-encoded',
        'redirect_uri must be an absolute http or https URL without username or password',
        'redirect_uri is not a valid URL',
        'redirect_uri already has a code, state, error or iss parameter in its query',
      ]),
    )
    const ofOtherCharacters = differing.filter((uri) => /characters|absolute/.test(refusalOf(uri) ?? ''))
    expect(ofOtherCharacters.filter((uri) => /^[!-$&-~]*$/.test(uri))).toEqual([])
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

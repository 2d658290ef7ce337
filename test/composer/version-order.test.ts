import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  compareNormalized,
  normalizeVersion,
  readVersion,
  versionSortKey,
} from '../../src/composer/composer-version.ts'

const suffix = fc.constantFrom(
  '',
  '-alpha1',
  '-alpha2.1',
  '-beta',
  '-beta2',
  '-RC1',
  '-RC10',
  '-p1',
  '-p2',
  '-dev',
  '-RC1-dev',
)
const release = fc
  .tuple(fc.nat(12), fc.nat(120), fc.nat(12), suffix)
  .map(([major, minor, patch, rest]) => `${major}.${minor}.${patch}${rest}`)

function bytewise(a: string, b: string): number {
  return Math.sign(Buffer.compare(Buffer.from(a), Buffer.from(b)))
}

it('orders versions byte by byte as Composer compares them', () => {
  fc.assert(
    fc.property(release, release, (a, b) => {
      const [left, right] = [normalizeVersion(a) as string, normalizeVersion(b) as string]
      expect(bytewise(versionSortKey(left), versionSortKey(right))).toBe(compareNormalized(left, right))
    }),
    { numRuns: 5000 },
  )
})

/** Sorts versions as the lists do that the database sorts by their keys. */
function sorted(versions: string[]): string[] {
  const keyOf = (version: string) => versionSortKey(readVersion(version).normalized)
  return versions.toSorted((a, b) => bytewise(keyOf(b), keyOf(a)))
}

it('puts the newest version first by Composer’s precedence, patches above their release', () => {
  const newestFirst = [
    ...[
      '10.0.0',
      '2.0.0',
      '1.10.0',
      '1.9.0',
      '1.0.0-p2',
      '1.0.0-patch.1',
      '1.0.0',
      '1.0.0-rc.2',
      '1.0.0-rc.1',
    ],
    ...['1.0.0-beta.11', '1.0.0-beta.2', '1.0.0-beta', '1.0.0-beta-dev', '1.0.0-alpha.1.2', '1.0.0-alpha.1'],
    ...['1.0.0-alpha', '1.0.0-dev', '0.9.0'],
  ]
  expect(sorted(newestFirst.toReversed())).toEqual(newestFirst)
})

it('compares all digits of long numbers', () => {
  const [smaller, larger] = ['1.99999999999999999998.0', '1.99999999999999999999.0']
  expect(sorted([smaller, larger])).toEqual([larger, smaller])
})

it('gives all versions that Composer cannot parse the same key, so that their dates order them', () => {
  expect(versionSortKey('dev-9.0.0-foo')).toBe(versionSortKey('dev-1.0.0-foo'))
})

it('puts versions that Composer cannot parse below every release', () => {
  expect(bytewise(versionSortKey('dev-9.9.9-foo'), versionSortKey('0.0.0.0-dev'))).toBe(-1)
})

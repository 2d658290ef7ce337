import fc from 'fast-check'
import { expect, it } from 'vitest'
import {
  compareNormalized,
  normalizeVersion,
  versionSortKey,
} from '../../../src/registry/manifest/composer-version.ts'

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

it('puts versions that Composer cannot parse below every release', () => {
  expect(bytewise(versionSortKey('dev-9.9.9-foo'), versionSortKey('0.0.0.0-dev'))).toBe(-1)
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  compareNormalized,
  normalizeVersion,
  readVersion,
  stabilityOf,
} from '../../src/composer/composer-version.ts'
import { isConstraint } from '../../src/composer/constraint.ts'
import { isPackageName, isPlatformName } from '../../src/composer/package-name.ts'
import { isPlainText } from '../../src/domain/plain-text.ts'
import { askComposer, hasComposer } from '../support/composer-oracle.ts'
import { constraintLike, semvers, versionLike } from './composer-strings.ts'

/** Set COMPOSER_SAMPLES=100000 for a long run. */
const samples = Number(process.env['COMPOSER_SAMPLES'] ?? 3000)

function sample<T>(arbitrary: fc.Arbitrary<T>): T[] {
  return [...new Set(fc.sample(arbitrary, samples))]
}

/** Composer 2.6 and newer read more texts as dates. svc has the older grammar, which every release of Composer accepts. */
const readsLongDates = hasComposer && askComposer([['normalize', '100000.0.0']])[0] !== null

describe.skipIf(!hasComposer)('compared with Composer’s own parser (needs php and composer)', () => {
  it('normalises every version as Composer does', () => {
    const versions = sample(fc.oneof(versionLike, semvers)).filter((v) => !readsLongDates || !/\d{4}/.test(v))
    const results = askComposer(versions.map((version) => ['normalize', version]))
    const actual = versions.map((version) => ({ version, normalized: normalizeVersion(version) }))
    const expected = versions.map((version, i) => ({
      version,
      normalized: !isPlainText(version) ? null : results[i],
    }))
    expect(actual).toEqual(expected)
    expect(results.filter((result) => result !== null).length).toBeGreaterThan(versions.length / 5)
    expect(results.filter((result) => result === null).length).toBeGreaterThan(versions.length / 5)
  })

  it('finds the stability that Composer finds', () => {
    const normalized = sample(fc.oneof(versionLike, semvers)).flatMap(
      (version) => normalizeVersion(version) ?? [],
    )
    const results = askComposer(normalized.map((version) => ['stability', version]))
    expect(normalized.map((version) => [version, stabilityOf(version)])).toEqual(
      normalized.map((version, i) => [version, results[i]]),
    )
  })

  it('accepts the same package names and platform names as Composer', () => {
    const part = fc.constantFrom(
      'a',
      'b1',
      '-',
      '--',
      '.',
      '_',
      '/',
      'ext-',
      'php',
      'con',
      'nul',
      '.json',
      'lib-x',
      'A',
    )
    const names = sample(fc.array(part, { minLength: 1, maxLength: 6 }).map((parts) => parts.join('')))
    const results = askComposer(names.map((name) => ['misnames', name]))
    // Platform packages may be in upper case. For all others, Composer requires lower case.
    const actual = names.map((name) => [name, isPackageName(name) || isPlatformName(name.toLowerCase())])
    expect(actual).toEqual(names.map((name, i) => [name, results[i] === null]))
  })

  it('orders versions as PHP does', () => {
    const normalized = sample(versionLike)
      .flatMap((version) => normalizeVersion(version) ?? [])
      // PHP treats all numbers beyond 64 bits as equal.
      .filter((version) => !version.startsWith('dev-') && !/\d{19}/.test(version))
    const pairs = normalized.map((a, i) => [a, normalized[(i * 7 + 1) % normalized.length] ?? a] as const)
    const results = askComposer(pairs.map(([a, b]) => ['compare', a, b]))
    expect(pairs.map(([a, b]) => [a, b, compareNormalized(a, b)])).toEqual(
      pairs.map(([a, b], i) => [a, b, results[i]]),
    )
  })

  it('accepts the constraints that Composer accepts, and no others', () => {
    const constraints = sample(constraintLike)
    const results = askComposer(constraints.map((constraint) => ['accepts', constraint]))
    const actual = constraints.map((constraint) => ({ constraint, accepted: isConstraint(constraint) }))
    const expected = constraints.map((constraint, i) => ({
      constraint,
      accepted:
        results[i] === true &&
        isPlainText(constraint) &&
        !(readsLongDates && /\d{4}/.test(constraint) && !isConstraint(constraint)),
    }))
    expect(actual).toEqual(expected)
    expect(results.filter((result) => result !== null).length).toBeGreaterThan(constraints.length / 8)
    expect(results.filter((result) => result === null).length).toBeGreaterThan(constraints.length / 8)
  })

  it('publishes every SemVer version so that Composer parses it as svc says', () => {
    const published = sample(semvers).map(readVersion)
    const normalized = askComposer(published.map(({ composerVersion }) => ['normalize', composerVersion]))
    const required = askComposer(published.map(({ composerVersion }) => ['accepts', composerVersion]))
    const stability = askComposer(published.map((version) => ['stability', version.normalized]))
    expect(published).toEqual(
      published.map((version, i) => ({
        ...version,
        normalized: normalized[i],
        isDev: stability[i] === 'dev',
      })),
    )
    expect(required).not.toContain(null)
  })
})

import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  compareNormalized,
  isReadAlike,
  isSameVersion,
  isSemver,
  maxVersionLength,
  normalizeVersion,
  readVersion,
  stabilityOf,
} from '../../src/composer/composer-version.ts'
import { Refusal } from '../../src/domain/refusal.ts'
import { semvers } from './composer-strings.ts'

interface Sample {
  version: string
  semver: boolean
  normalized: string | null
  stability: string | null
}

const samples: Sample[] = JSON.parse(
  readFileSync(new URL('../fixtures/composer-versions.json', import.meta.url), 'utf8'),
)
/** The Composer that made the samples reads these as dates. Older ones reject them. */
const disputed = ['100000.0.0', '123456.7.8', '20260101.0.0']

function refusalOf(act: () => unknown): Refusal {
  try {
    act()
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
  throw new Error('not refused')
}

describe('isSemver', () => {
  it.each(samples)('returns $semver for $version', ({ version, semver }) => {
    expect(isSemver(version)).toBe(semver)
  })

  it.each([
    ...[
      '',
      '1.0.0\n',
      '\n1.0.0',
      '1.0.0.0',
      '1.0.0-',
      '1.0.0-a..b',
      '1.0.0+a+b',
      '1.0.0+',
      '1.0.0-ä',
      '1.0.0-01',
    ],
    ...['1.00.0', '-1.0.0', '1.0.0-a_b', '１.0.0', '1.0.0 ', '1,0,0'],
  ])('refuses %j', (version) => {
    expect(isSemver(version)).toBe(false)
  })

  it.each(['1.0.0--', '1.0.0-0a', '1.0.0-00a', '1.0.0+01', '1.0.0-0-0', '0.0.0-0'])(
    'accepts %j',
    (version) => {
      expect(isSemver(version)).toBe(true)
    },
  )

  it('accepts 255 characters and refuses 256', () => {
    const longest = `1.0.0-${'a'.repeat(maxVersionLength - 6)}`
    expect(isSemver(longest)).toBe(true)
    expect(isSemver(`${longest}a`)).toBe(false)
  })
})

describe('normalizeVersion', () => {
  it.each(samples.filter(({ version }) => !disputed.includes(version)))(
    'normalizes $version to $normalized',
    ({ version, normalized, stability }) => {
      expect(normalizeVersion(version)).toBe(normalized)
      if (normalized !== null) expect(stabilityOf(normalized)).toBe(stability)
    },
  )

  it.each([
    ['1.0.0-STABLE', '1.0.0.0-stable'],
    ['1.0.0-stable-dev', '1.0.0.0'],
    ['1.0.0_p1', '1.0.0.0-patch1'],
    ['1.0.0DEV', '1.0.0.0-dev'],
    ['2026-01-02', '2026.01.02'],
    ['20260102-beta2', '20260102-beta2'],
    ['2.x-dev', '2.9999999.9999999.9999999-dev'],
    ['v2.*.X.dev', '2.9999999.9999999.9999999-dev'],
    ['master', 'dev-master'],
    ['DEV-Foo bar', 'dev-Foo bar'],
    ['  1.0 @dev', null],
    ['  1.0@dev ', '1.0.0.0'],
    ['dev-main as 1.0', 'dev-main'],
    ['100000.0.0-dev', '100000.0.0.9999999-dev'],
    ['\u00a01.0', null],
    ['1.0+a b', null],
    ['', null],
  ])('makes of %j %j', (version, normalized) => {
    expect(normalizeVersion(version)).toBe(normalized)
  })

  it.each(['1.0\n', 'dev-\u001b[31m', 'dev-a\u0085'])('refuses the control characters of %j', (version) => {
    expect(normalizeVersion(version)).toBeNull()
  })

  // A pattern that matches a character in two ways would never finish with these texts.
  it.each([
    ['numbers', `1.0-alpha${'1'.repeat(100_000)}!`],
    ['numbers with dots', `1.0-alpha${'.1'.repeat(50_000)}!`],
    ['majors', `${'9'.repeat(100_000)}!`],
    ['spaces', `1.0${' '.repeat(100_000)}!`],
    ['aliases', `a${' as '.repeat(30_000)}!`],
    ['builds', `1.0${'+a'.repeat(50_000)} b`],
    ['branches', `${'1.x'.repeat(30_000)}-dev`],
    ['devs', `${'-dev'.repeat(30_000)}!`],
    ['flags', `${'@dev'.repeat(30_000)}!`],
  ])('refuses very many %s at once', (_, version) => {
    expect(normalizeVersion(version)).toBeNull()
  })
})

describe('isReadAlike', () => {
  it.each([...disputed, '100000.0.0-dev', '100000.0.0+build', '2026010203.1.2-beta1'])(
    'is false for %s',
    (version) => {
      expect(isReadAlike(version)).toBe(false)
    },
  )

  it.each(['1.0.0', '2026.11.20', '202611.20.5', '1.0.0-foo', '99999.99999.99999'])(
    'is true for %s',
    (version) => {
      expect(isReadAlike(version)).toBe(true)
    },
  )
})

describe('readVersion', () => {
  it('publishes versions that Composer can parse under their own names', () => {
    expect(readVersion('1.0.0-beta.2+b1')).toEqual({
      version: '1.0.0-beta.2+b1',
      composerVersion: '1.0.0-beta.2+b1',
      normalized: '1.0.0.0-beta2',
      isDev: false,
    })
  })

  it('puts development versions into the ~dev document', () => {
    expect(readVersion('1.1.0-dev')).toMatchObject({ composerVersion: '1.1.0-dev', isDev: true })
    expect(readVersion('1.1.0-rc.1.dev')).toMatchObject({ normalized: '1.1.0.0-RC1-dev', isDev: true })
    expect(readVersion('1.1.0+-dev')).toMatchObject({ normalized: '1.1.0.0', isDev: false })
  })

  it.each([...disputed, '1.0.0-foo', '1.0.0-1', '100000.0.0-dev', '1.0.0-0.3.7+b'])(
    'publishes %s as a branch, because not every Composer can parse it (COMPOSER A6)',
    (version) => {
      const branch = `dev-${version}`
      expect(readVersion(version)).toEqual({
        version,
        composerVersion: branch,
        normalized: branch,
        isDev: true,
      })
    },
  )

  it('gives versions that are equal for Composer the same key (COMPOSER A6)', () => {
    const keys = ['1.1.0', '1.1.0+a', '1.1.0+b', '1.1.0-stable'].map(
      (version) => readVersion(version).normalized,
    )
    expect(new Set(keys).size).toBe(1)
  })

  it('rejects versions that are not SemVer, with the message of SPEC 7', () => {
    const refusal = refusalOf(() => readVersion('1.0'))
    expect(refusal.status).toBe(400)
    expect(refusal.body).toMatchObject({ errcode: 3, errmsg: 'validate [Version:1.0] failed' })
    expect(refusal.body.warning).toContain('SemVer')
    expect(refusal.body.warning).not.toContain('did you mean')
  })

  it.each(['v1.0.0', 'V1.0.0'])('suggests 1.0.0 for %s', (version) => {
    const { body } = refusalOf(() => readVersion(version))
    expect(body.errmsg).toBe(`validate [Version:${version}] failed`)
    expect(body.warning).toBe('did you mean 1.0.0?')
    expect(body.details?.[0]).toBe('did you mean 1.0.0?')
  })

  it('suggests nothing when the rest is no version either', () => {
    for (const version of ['v1.0', 'version', 'vv1.0.0']) {
      expect(refusalOf(() => readVersion(version)).body.warning).not.toContain('did you mean')
    }
  })

  it('never maps two versions that differ by more than their build to one branch', () => {
    fc.assert(
      fc.property(semvers, semvers, (a, b) => {
        const [left, right] = [readVersion(a), readVersion(b)]
        if (left.composerVersion.startsWith('dev-'))
          expect(left.normalized === right.normalized).toBe(a === b)
      }),
    )
  })
})

describe('isSameVersion', () => {
  it.each([
    ['1.0.0', '1.0.0', true],
    ['1.0.0', 'v1.0', true],
    ['1.0.0', '1', true],
    ['1.0.0+a', '1.0.0+b', true],
    ['1.0.0', '1.0.1', false],
    ['1.0.0', '1.0.0-dev', false],
    ['1.0.0-foo', '1.0.0-foo', true],
    ['1.0.0-foo', 'dev-1.0.0-foo', true],
    ['1.0.0-foo', '1.0.0-bar', false],
    ['100000.0.0-dev', '100000.0.0-dev', true],
    ['1.0.0', 'nonsense', false],
  ])('of the upload %s and the manifest’s %s is %s', (uploaded, written, same) => {
    expect(isSameVersion(written, readVersion(uploaded))).toBe(same)
  })
})

describe('compareNormalized', () => {
  it.each([
    ['2026.01', '2026.01.0'],
    ['2026.01-RC', '2026.01'],
    ['2026.01', '2026.01-patch'],
    ['1.0.0.0-stable', '1.0.0.0-dev'],
    ['1.0.0.0-alpha', '1.0.0.0-alpha1'],
  ])('puts %s before %s, as PHP does', (lower, higher) => {
    expect(compareNormalized(lower, higher)).toBe(-1)
    expect(compareNormalized(higher, lower)).toBe(1)
  })
})

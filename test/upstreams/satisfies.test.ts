import { describe, expect, it } from 'vitest'
import { normalizeVersion } from '../../src/composer/composer-version.ts'
import { satisfies } from '../../src/upstreams/documents/satisfies.ts'
import { askComposer, hasComposer } from '../support/composer-oracle.ts'

const versions = [
  ...[
    '0.0.1',
    '0.1.0',
    '0.1.9',
    '0.2.0',
    '1.0.0',
    '1.0.0-dev',
    '1.0.0-alpha1',
    '1.0.0-beta2',
    '1.0.0-RC1',
    '1.0.0-p1',
  ],
  ...[
    '1.0.1',
    '1.1.0',
    '1.2.3',
    '1.2.3.4',
    '1.2.4',
    '1.3.0-beta',
    '1.9.9',
    '2.0.0-alpha',
    '2.0.0',
    '2.1.0',
    '3.0.0',
    '10.0.0',
  ],
  ...['dev-main', 'dev-feature/foo', '1.x-dev', '2.0.x-dev', '20240101', '2024.1.1'],
]
const constraints = [
  ...[
    '*',
    '1.*',
    '1.2.*',
    'x',
    '1.x',
    '1.0.x',
    '0.*',
    '^1',
    '^1.0',
    '^1.2.3',
    '^0.1',
    '^0.1.5',
    '^0.0.1',
    '^0',
    '^0.0',
    '^1.0-beta',
  ],
  ...[
    '~1',
    '~1.0',
    '~1.2.3',
    '~1.2.3.4',
    '~0.1',
    '~1.2-beta',
    '>1',
    '>=1.0',
    '<2',
    '<=1.2.3',
    '<2.0.0-beta',
    '>1.0-RC1',
  ],
  ...[
    '1.0.0',
    '=1.0.0',
    '==1.0',
    '!=1.0.0',
    '<>1.0.0',
    '>=1.0 <2.0',
    '>=1.0,<1.2.3',
    '>=1.0, <1.2.3',
    '^1.0 || ^2.0',
    '^1.0|^3.0',
  ],
  ...[
    '1.0 - 2.0',
    '1.0.0 - 1.2.3',
    '1 - 2',
    '1.0-beta - 1.2.3.4',
    'dev-main',
    'dev-feature/foo',
    '1.x-dev',
    '^1.0@dev',
    '>=1.0@beta',
  ],
  ...[
    '!=1.0.0,>=1.0',
    '<1.0 || >=2.0,<2.1',
    '>=dev-main',
    '2024.*',
    '>=20240101',
    'self.version',
    'nonsense',
    '^1.0 as 2.0',
    '~1.x-dev',
  ],
  ...[
    '@dev',
    '',
    ' ^1.0 ',
    '>= 1.0',
    '^ 1.0',
    'main-dev',
    'dev-main#abc',
    '1.2.3.x',
    '<1.x-dev',
    '>1.*',
    '=dev-main',
    '!=dev-main',
  ],
]

describe('satisfies', () => {
  it('compares releases', () => {
    expect(satisfies('1.2.3.0', '^1.2')).toBe(true)
    expect(satisfies('2.0.0.0', '^1.2')).toBe(false)
    expect(satisfies('1.2.3.0', '<1.2.3 || >=2')).toBe(false)
    expect(satisfies('1.2.3.0', 'nonsense')).toBe(false)
  })

  it.skipIf(!hasComposer)('agrees with Composer on every pair', () => {
    const pairs = versions.flatMap((version) =>
      constraints.map((constraint) => [normalizeVersion(version) ?? '', constraint] as const),
    )
    const expected = askComposer(pairs.map(([version, constraint]) => ['satisfies', version, constraint]))
    const different = pairs.filter(
      ([version, constraint], i) => satisfies(version, constraint) !== (expected[i] ?? false),
    )
    expect(different).toEqual([])
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  hashSecret,
  isSameSecret,
  kindOfSecret,
  makeClientId,
  makeOpaqueId,
  makePassword,
  makeSecret,
  type SecretKind,
  secretPrefixes,
  takeRandom,
} from '../../src/domain/secrets.ts'

const kinds = Object.keys(secretPrefixes) as SecretKind[]
const times = (count: number, make: () => string) => Array.from({ length: count }, make)

describe('makeSecret and kindOfSecret (CONTRACT 5.1)', () => {
  it.each(kinds)('make and recognize a secret of the kind %s', (kind) => {
    const secret = makeSecret(kind)
    expect(secret).toMatch(/^svc[a-z]_[0-9A-Za-z]{49}$/)
    expect(secret.startsWith(secretPrefixes[kind])).toBe(true)
    expect(kindOfSecret(secret)).toBe(kind)
  })

  it('never make the same twice', () => {
    expect(new Set(times(1000, () => makeSecret('access'))).size).toBe(1000)
  })

  it('detect every changed character, without the database', () => {
    const secret = makeSecret('personal')
    fc.assert(
      fc.property(
        fc.nat(secret.length - 1),
        fc.constantFrom('0', '9', 'A', 'Z', 'a', 'z', '_', '-', ' '),
        (index, character) => {
          fc.pre(secret[index] !== character)
          expect(kindOfSecret(secret.slice(0, index) + character + secret.slice(index + 1))).toBeNull()
        },
      ),
    )
  })

  it.each(['', 'svcp_', 'svcx_abc', ' '.repeat(54), `${makeSecret('code')}\n`, `${makeSecret('code')}0`])(
    'do not accept %j as a secret',
    (text) => expect(kindOfSecret(text)).toBeNull(),
  )
})

describe('takeRandom', () => {
  it('returns bytes that later calls do not change, and never the same twice', () => {
    const taken = Array.from({ length: 2000 }, (_, i) => takeRandom(i % 2 === 0 ? 32 : 12))
    const before = taken.map((bytes) => bytes.toString('hex'))
    makeSecret('access')
    expect(taken.map((bytes) => bytes.toString('hex'))).toEqual(before)
    expect(new Set(before).size).toBe(2000)
    expect(taken.map(({ length }) => length).slice(0, 2)).toEqual([32, 12])
  })
})

describe('hashSecret', () => {
  it('is SHA-256', () => {
    expect(hashSecret('abc').toString('hex')).toBe(
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    )
  })
})

describe('isSameSecret', () => {
  it.each([
    ['secret', 'secret', true],
    ['secreT', 'secret', false],
    ['secret', 'secret!', false],
    ['', 'secret', false],
    ['sécret', 'sécret', true],
    ['séret', 'secret', false],
  ])('compares %o with %o', (sent, right, isSame) => expect(isSameSecret(sent, right)).toBe(isSame))
})

describe('identifiers and passwords', () => {
  it('contain only characters that no client or shell changes', () => {
    for (const id of times(200, makeClientId)) expect(id).toMatch(/^[a-z2-7]{20}$/)
    for (const id of times(200, makeOpaqueId)) expect(id).toMatch(/^[A-Za-z0-9_-]{43}$/)
    for (const password of times(200, makePassword)) expect(password).toMatch(/^[0-9A-Za-z]{25}$/)
  })
})

import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { JsonObject } from '../../src/composer/manifest-json.ts'
import { difference } from '../../src/composer/minify.ts'
import { expand } from '../support/registry-actors.ts'

const entry = fc.dictionary(
  fc.constantFrom('a', 'b', 'c', 'd'),
  fc.constantFrom('x', 'y', 1, null, [], ['x'], { k: 'v' }, { k: 'w' }),
) as fc.Arbitrary<JsonObject>

it('is undone by Composer’s expansion, for all entries', () => {
  fc.assert(
    fc.property(fc.array(entry), (entries) => {
      const minified = entries.map((one, i) => difference(one, entries[i - 1] ?? null))
      const document = JSON.stringify({ packages: { 'acme/lib': minified } })
      expect(expand(document)).toEqual(entries)
    }),
  )
})

it('leaves out values that the newer version has too', () => {
  expect(difference({ a: 1, b: { c: 2 }, d: 3 }, { a: 1, b: { c: 1 }, e: 4 })).toEqual({
    b: { c: 2 },
    d: 3,
    e: '__unset',
  })
})

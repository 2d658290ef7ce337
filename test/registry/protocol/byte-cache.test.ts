import { expect, it } from 'vitest'
import { makeByteCache } from '../../../src/registry/protocol/byte-cache.ts'

it('holds at most so many bytes, and lets go of what was not used for longest', () => {
  const cache = makeByteCache(30)
  const set = (name: string, bytes = 10) => cache.set(name, { bytes: Buffer.alloc(bytes) })
  const kept = () => ['a', 'b', 'c', 'd', 'huge'].filter((name) => cache.get(name))
  for (const name of ['a', 'b', 'c']) set(name)
  cache.get('a')
  set('d')
  expect(kept()).toEqual(['a', 'c', 'd'])
  set('a', 25)
  expect(kept()).toEqual(['a'])
  set('huge', 31)
  expect(kept()).toEqual(['a'])
  set('a', 31)
  expect(kept()).toEqual([])
})

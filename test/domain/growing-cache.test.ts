import { LRUCache } from 'lru-cache'
import { expect, it } from 'vitest'
import { keepUpTo } from '../../src/domain/growing-cache.ts'

it('keeps as many values as it may, and forgets the one that was used longest ago', () => {
  const cache = new LRUCache<string, true>(keepUpTo(2))
  for (const name of ['a', 'b']) cache.set(name, true)
  expect(cache.get('a')).toBe(true)
  cache.set('c', true)
  expect([...cache.keys()].sort()).toEqual(['a', 'c'])
})

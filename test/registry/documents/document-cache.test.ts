import { expect, it } from 'vitest'
import { makeDocumentCache } from '../../../src/registry/documents/document-cache.ts'

it('holds at most so many bytes, and lets go of what was not used for longest', () => {
  const cache = makeDocumentCache(30)
  const set = (name: string, bytes = 10) =>
    cache.set(name, 'br', { revision: '1', bytes: Buffer.alloc(bytes) })
  for (const name of ['a', 'b', 'c']) set(name)
  cache.get('a', 'br')
  set('d')
  expect(['a', 'b', 'c', 'd'].filter((name) => cache.get(name, 'br'))).toEqual(['a', 'c', 'd'])
  expect(cache.get('a', 'gzip')).toBeNull()
  set('a', 25)
  expect(['a', 'c', 'd'].filter((name) => cache.get(name, 'br'))).toEqual(['a'])
  set('huge', 100)
  expect(cache.get('huge', 'br')).toBeNull()
})

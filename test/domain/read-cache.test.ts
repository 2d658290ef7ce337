import { describe, expect, it } from 'vitest'
import { openReadCache } from '../../src/domain/read-cache.ts'

interface Value {
  text: string
}

/** A cache of values with one character each, and the reads that wait. */
function aCache(maxSize: number) {
  const reads = new Map<string, (value?: Value) => void>()
  const cache = openReadCache<Value>({
    maxSize,
    sizeOf: ({ text }) => text.length,
    read: (key) => new Promise((resolve) => reads.set(key, resolve)),
  })
  return { cache, end: (key: string, value?: Value) => reads.get(key)?.(value), reads }
}

describe('a read of a cache', () => {
  it('is shared by the calls that wait for it', async () => {
    const { cache, end, reads } = aCache(10)
    const calls = [cache.fetch('a'), cache.fetch('a')]
    expect(reads.size).toBe(1)
    end('a', { text: 'a' })
    expect(await Promise.all(calls)).toEqual([{ text: 'a' }, { text: 'a' }])
    expect(cache.get('a')).toEqual({ text: 'a' })
  })

  it('returns its value to those that wait, although the value is replaced before that', async () => {
    const { cache, end } = aCache(10)
    const call = cache.fetch('a')
    cache.set('a', { text: 'b' })
    end('a', { text: 'a' })
    expect(await call).toEqual({ text: 'a' })
  })

  it('returns its value to those that wait, although the cache has no room for the key any more', async () => {
    const { cache, end } = aCache(3)
    const call = cache.fetch('a')
    for (const key of ['b', 'c', 'd', 'e']) cache.set(key, { text: key })
    end('a', { text: 'a' })
    expect(await call).toEqual({ text: 'a' })
  })

  it('returns undefined when there is no value', async () => {
    const { cache, end } = aCache(10)
    const call = cache.fetch('a')
    end('a')
    expect(await call).toBeUndefined()
  })
})

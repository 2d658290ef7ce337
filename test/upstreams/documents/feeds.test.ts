import { describe, expect, it } from 'vitest'
import { parseChanges, parseMalwareList } from '../../../src/upstreams/documents/feeds.ts'

const bytesOf = (content: object) => Buffer.from(JSON.stringify(content))

describe('parseChanges', () => {
  const feed = (count: number) =>
    parseChanges(
      bytesOf({
        actions: Array.from({ length: count }, (_, i) => ({ type: 'update', package: `acme/lib${i}` })),
        timestamp: 5,
      }),
    )

  it('returns at most 20,000 changes: with more, all documents are stale', () => {
    const { isResync, documents } = feed(20_000)
    expect([isResync, documents.length]).toEqual([false, 20_000])
    expect(feed(20_001)).toEqual({ timestamp: '5', isResync: true, documents: [] })
  })
})

describe('parseMalwareList', () => {
  it('leaves out constraints that Composer cannot read, and names that no package has', () => {
    const malware = { 'acme/lib': '^1.0', 'acme/odd': '^^1', 'acme/none': 1, 'no-vendor': '*' }
    const list = parseMalwareList(bytesOf({ filter: { malware } }))
    expect(JSON.parse(String(list))).toEqual([['acme/lib', '^1.0']])
  })
})

import { describe, expect, it } from 'vitest'
import { openUpstreamClient } from '../../src/upstreams/client/fetch.ts'
import { inlinePackages } from '../../src/upstreams/fresh-root.ts'
import { checkContextOf } from '../../src/upstreams/mirror.ts'
import { listUpstreams } from '../../src/upstreams/tables/upstreams.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()

describe('the memory of upstreams', () => {
  it('counts bytes, not characters', async () => {
    const wide = '日'.repeat(100_000)
    const pattern = '日'.repeat(200)
    const dist = { type: 'zip', url: `${upstream.url}/x.zip` }
    const entry = { name: 'wide/lib', version: '1.0.0', description: wide, dist }
    upstream.put('/packages.json', {
      packages: { 'wide/lib': { '1.0.0': entry } },
      'available-package-patterns': Array.from({ length: 50 }, () => pattern),
    })
    const { repository, call } = await aCaller(t)
    await call('POST', '/upstreams', { url: upstream.url, name: 'wide' })
    const [row] = await listUpstreams(t.db, repository.id)
    if (!row) throw new Error('there is no upstream')
    const client = openUpstreamClient(t.config)
    try {
      const context = checkContextOf({ config: t.config, db: t.db, client })
      await inlinePackages(context, row)
      expect(context.inline.calculatedSize).toBeGreaterThan(Buffer.byteLength(wide))
      expect(row.root?.patterns).toHaveLength(50)
      context.upstreams.set(row.id, { version: '1', upstream: row })
      expect(context.upstreams.calculatedSize).toBeGreaterThan(50 * Buffer.byteLength(pattern))
    } finally {
      await client.close()
    }
  })
})

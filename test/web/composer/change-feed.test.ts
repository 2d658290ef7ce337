import { describe, expect, it } from 'vitest'
import { useApp } from '../../support/app.ts'
import { addPackages } from '../../support/package-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import { ageChanges, copyDocuments } from '../../support/stored-documents.ts'

const t = useApp()

/** Makes every document an hour older, to distinguish it from later changes. */
async function anHourPasses(): Promise<void> {
  await ageChanges(t.db, 3600)
}

describe('GET metadata/changes.json (COMPOSER A2)', () => {
  it('names the documents that changed since a mirror last asked', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/old' })
    await anHourPasses()
    const { timestamp } = (await ask('metadata/changes.json?since=0')).json()
    await push('1.0.0', { name: 'acme/new' })
    const response = await ask(`metadata/changes.json?since=${timestamp}`)
    expect(response.statusCode).toBe(200)
    expect(response.headers['content-type']).toBe('application/json')
    const { actions } = response.json() as { actions: { type: string; package: string; time: number }[] }
    expect(actions.map(({ package: name }) => name)).toEqual(['acme/new', 'acme/new~dev'])
    expect(actions[0]).toMatchObject({ type: 'update', time: expect.any(Number) })
    expect((await ask('metadata/changes.json?since=0')).json().actions).toHaveLength(4)
  })

  it('names a document again for a minute, because its change may not have been committed', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/lib' })
    await ageChanges(t.db, 30)
    const { timestamp } = (await ask('metadata/changes.json?since=0')).json()
    const { actions } = (await ask(`metadata/changes.json?since=${timestamp}`)).json()
    expect(actions).toHaveLength(2)
  })

  it.each(['', '?since=', '?since=yesterday', '?since=-1', '?since=1&since=2', `?since=${'9'.repeat(16)}`])(
    'refuses a request without a valid since, with the timestamp to begin with: %s',
    async (query) => {
      const { ask } = await aPublisher(t)
      const response = await ask(`metadata/changes.json${query}`)
      expect(response.statusCode).toBe(400)
      expect(response.json()).toMatchObject({ errcode: 3, timestamp: expect.any(Number) })
      expect(response.json().timestamp / 10_000).toBeLessThanOrEqual(Date.now() / 1000)
    },
  )

  it('lists many changes in parts, each document at least once', async () => {
    const { push, ask, repository } = await aPublisher(t)
    await push('1.0.0')
    // There are 12,000 documents in the order of their numbers, seven in each second.
    const names = Array.from({ length: 12_000 }, (_, i) => `many/lib${i}`)
    await addPackages(t.db, repository, names)
    await copyDocuments(t.db, repository, 7)
    const seen: string[] = []
    let since = 0
    let parts = 0
    do {
      const { actions, timestamp } = (await ask(`metadata/changes.json?since=${since}`)).json()
      expect(actions.length).toBeLessThanOrEqual(5000)
      seen.push(...actions.map((action: { package: string }) => action.package))
      if (parts > 0) expect(timestamp).toBeGreaterThan(since)
      since = timestamp
      parts += 1
    } while (new Set(seen).size < 12_002 && parts < 10)
    expect(seen.length).toBeGreaterThanOrEqual(12_002)
    expect([new Set(seen).size, parts]).toEqual([12_002, 3])
  })

  it('asks a mirror to fetch everything after too many changes at once', async () => {
    const { push, ask, repository } = await aPublisher(t)
    await push('1.0.0')
    const names = Array.from({ length: 5001 }, (_, i) => `many/lib${i}`)
    await addPackages(t.db, repository, names)
    await copyDocuments(t.db, repository, null)
    const { actions, timestamp } = (await ask('metadata/changes.json?since=0')).json()
    expect(actions).toEqual([{ type: 'resync', package: '*', time: expect.any(Number) }])
    const next = (await ask(`metadata/changes.json?since=${timestamp}`)).json()
    expect(next.actions.map((action: { package: string }) => action.package)).toEqual([
      'acme/lib',
      'acme/lib~dev',
    ])
  })

  it('is for those who may pull', async () => {
    const publisher = await aPublisher(t)
    const others = await aPublisher(t)
    const headers = { authorization: others.authorization }
    expect((await publisher.ask('metadata/changes.json?since=0', { headers })).statusCode).toBe(404)
  })
})

import { describe, expect, it } from 'vitest'
import { useApp } from '../../support/app.ts'
import { aPublisher } from '../../support/registry-actors.ts'

const t = useApp()

/** Makes every document an hour older, to distinguish it from later changes. */
async function anHourPasses(): Promise<void> {
  await t.db.query(`update package_document set last_modified = last_modified - interval '1 hour'`)
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
    await t.db.query(`update package_document set last_modified = last_modified - interval '30 seconds'`)
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
    await t.db.query(
      `insert into package (repository_id, name) select $1, 'many/lib' || i from generate_series(0, 11999) i`,
      [repository.id],
    )
    // Without "materialized", PostgreSQL searches the document again for each row: among those that it just inserted.
    await t.db.query(
      `with d as materialized (
         select base_url, plain, gzip, brotli from package_document where repository_id = $1 and not is_dev limit 1
       )
       insert into package_document (package_id, repository_id, is_dev, base_url, last_modified, plain, gzip, brotli)
       select p.id, p.repository_id, false, d.base_url,
              date_trunc('second', now()) - interval '1 hour' + substr(p.name, 9)::int / 7 * interval '1 second',
              d.plain, d.gzip, d.brotli
         from package p cross join d
        where p.repository_id = $1 and p.name like 'many/%'`,
      [repository.id],
    )
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
    await t.db.query(
      `insert into package (repository_id, name) select $1, 'many/lib' || i from generate_series(1, 5001) i`,
      [repository.id],
    )
    await t.db.query(
      `insert into package_document (package_id, repository_id, is_dev, base_url, last_modified, plain, gzip, brotli)
       select p.id, p.repository_id, false, d.base_url, date_trunc('second', now()) - interval '1 hour', d.plain, d.gzip, d.brotli
         from package p
        cross join (select base_url, plain, gzip, brotli from package_document
                     where repository_id = $1 and not is_dev limit 1) d
        where p.repository_id = $1 and p.name like 'many/%'`,
      [repository.id],
    )
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

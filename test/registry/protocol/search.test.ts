import { describe, expect, it } from 'vitest'
import { useApp } from '../../support/app.ts'
import { aPublisher } from '../../support/registry-actors.ts'

const t = useApp()

async function aStockedRegistry() {
  const publisher = await aPublisher(t)
  const stock = {
    'acme/log': { description: 'Writes a log', provide: { 'psr/log-implementation': '1.0' } },
    'acme/log-viewer': { description: 'Shows it', keywords: ['reading'] },
    'other/tools': {
      type: 'composer-plugin',
      description: 'Finds 100% of acme, in a log too',
      require: { 'composer-plugin-api': '^2' },
      extra: { class: 'A\\B' },
    },
  }
  for (const [name, manifest] of Object.entries(stock)) await publisher.push('1.0.0', { name, manifest })
  return publisher
}

describe('GET search.json', () => {
  it('finds packages by all of the words, in name, description and keywords, names first', async () => {
    const { ask } = await aStockedRegistry()
    const search = async (query: string) => {
      const { results } = (await ask(`search.json?${query}`)).json()
      return (results as { name: string }[]).map(({ name }) => name)
    }
    expect(await search('q=log')).toEqual(['acme/log', 'acme/log-viewer', 'other/tools'])
    expect(await search('q=LOG+shows')).toEqual(['acme/log-viewer'])
    expect(await search('q=reading')).toEqual(['acme/log-viewer'])
    expect(await search('q=acme&type=composer-plugin')).toEqual(['other/tools'])
    expect(await search('q=100%25')).toEqual(['other/tools'])
    expect(await search('q=none')).toEqual([])
    expect(await search('')).toHaveLength(3)
    expect(await search('q=log&q=none&q[]=x')).toEqual(['acme/log', 'acme/log-viewer', 'other/tools'])
    expect(await search('q=%00')).toHaveLength(3)
  })

  it('says what a package is, and whether it is abandoned', async () => {
    const { ask, repository } = await aStockedRegistry()
    await t.db.query(
      `update package set abandoned_at = now(), replacement = 'acme/log' where name = 'acme/log-viewer' and repository_id = $1`,
      [repository.id],
    )
    const { results, total } = (await ask('search.json?q=acme/log')).json()
    expect(total).toBe(2)
    expect(results).toEqual([
      { name: 'acme/log', description: 'Writes a log', downloads: 0 },
      { name: 'acme/log-viewer', description: 'Shows it', downloads: 0, abandoned: 'acme/log' },
    ])
  })
})

describe('GET list.json', () => {
  it('lists names by pattern and vendor', async () => {
    const { ask } = await aStockedRegistry()
    const list = async (query: string) => (await ask(`list.json?${query}`)).json().packageNames
    expect(await list('')).toEqual(['acme/log', 'acme/log-viewer', 'other/tools'])
    expect(await list('filter=acme/*')).toEqual(['acme/log', 'acme/log-viewer'])
    expect(await list('vendor=acme&filter=*view*')).toEqual(['acme/log-viewer'])
    expect(await list('filter=acme_log')).toEqual([])
  })
})

describe('GET providers/<vendor>/<package>.json', () => {
  it('names the packages that provide another', async () => {
    const { ask } = await aStockedRegistry()
    expect((await ask('providers/psr/log-implementation.json')).json()).toEqual({
      providers: [{ name: 'acme/log', description: 'Writes a log', type: 'library' }],
    })
    expect((await ask('providers/psr/cache-implementation.json')).json()).toEqual({ providers: [] })
  })
})

describe('POST downloads', () => {
  it('counts by version and day, and leaves out what it does not know', async () => {
    const { ask, repository } = await aStockedRegistry()
    const downloads = [
      { name: 'acme/log', version: '1.0.0.0' },
      { name: 'acme/log', version: '1.0.0.0' },
      { name: 'acme/log', version: '9.0.0.0' },
      { name: 'public/other', version: '1.0.0.0' },
      { name: 'acme/log-viewer', version: '1.0.0.0' },
      { name: 1 },
      null,
    ]
    const notify = (payload: string) =>
      ask('downloads', { method: 'POST', headers: { 'content-type': 'application/json' }, payload })
    expect((await notify(JSON.stringify({ downloads }))).statusCode).toBe(200)
    expect((await notify(JSON.stringify({ downloads }))).statusCode).toBe(200)
    const counts = async () => {
      const { rows } = await t.db.query(
        `select p.name, d.count::int, d.day = (now() at time zone 'utc')::date as today
           from package_download d join package_version v on v.id = d.version_id join package p on p.id = v.package_id
          where p.repository_id = $1 order by p.name`,
        [repository.id],
      )
      return rows
    }
    await expect.poll(counts, { timeout: 5000 }).toEqual([
      { name: 'acme/log', count: 4, today: true },
      { name: 'acme/log-viewer', count: 2, today: true },
    ])
    expect((await ask('search.json?q=acme/log')).json().results[0].downloads).toBe(4)
  })

  it.each(['', 'hello', '[]', '{}', '{"downloads":1}', 'null'])(
    'refuses %j with errcode 3',
    async (payload) => {
      const { ask } = await aPublisher(t)
      const answer = await ask('downloads', { method: 'POST', payload })
      expect([answer.statusCode, answer.json().errcode]).toEqual([400, 3])
    },
  )

  it('bounds what one request may bring', async () => {
    const { ask, push } = await aPublisher(t)
    await push('1.0.0')
    const many = Array.from({ length: 1500 }, () => ({ name: 'acme/lib', version: '1.0.0.0' }))
    await ask('downloads', { method: 'POST', payload: JSON.stringify({ downloads: many }) })
    await expect
      .poll(async () => (await ask('search.json?q=acme/lib')).json().results[0].downloads, { timeout: 5000 })
      .toBe(1000)
    const huge = await ask('downloads', { method: 'POST', payload: ' '.repeat(600 * 1024) })
    expect([huge.statusCode, huge.json().errcode]).toEqual([413, 8])
  })
})

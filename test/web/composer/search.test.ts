import { describe, expect, it } from 'vitest'
import { useApp } from '../../support/app.ts'
import { downloadDays } from '../../support/download-rows.ts'
import {
  addFirstVersions,
  addPackages,
  markAbandoned,
  markDeleted,
  packageRows,
} from '../../support/package-rows.ts'
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
    await markAbandoned(t.db, repository, 'acme/log', 'acme/log-viewer')
    const { results, total } = (await ask('search.json?q=acme/log')).json()
    expect(total).toBe(2)
    expect(results).toEqual([
      { name: 'acme/log', description: 'Writes a log', downloads: 0 },
      { name: 'acme/log-viewer', description: 'Shows it', downloads: 0, abandoned: 'acme/log' },
    ])
  })
})

describe('GET search.json of 6,000 packages', () => {
  const nouns = ['http', 'log', 'cache', 'queue', 'mail', 'view', 'router', 'console']

  async function aLargeRegistry() {
    const publisher = await aPublisher(t)
    await publisher.push('1.0.0')
    const { repository } = publisher
    const packages = Array.from({ length: 6000 }, (_, index) => {
      const i = index + 1
      const name = `vendor${i % 50}/${nouns[i % 8]}-${'x'.repeat(i % 40)}${i}`
      const description = i % 3 === 0 ? `Works with Umlaute (äöü), number ${i}` : ''
      const keywords = i % 1000 === 7 ? ['Needle', 'hay'] : []
      return { name, description, keywords, type: i % 2000 === 5 ? 'composer-plugin' : 'library' }
    })
    const others = { zq: 'Writes 日志', a: 'Is 100%_sure of Ключ and of C:\\zoo', b: 'Is 100%sure' }
    for (const [name, description] of Object.entries(others))
      packages.push({
        name: `vendor/${name}${'-long'.repeat(8)}`,
        description,
        keywords: [],
        type: 'library',
      })
    await addPackages(t.db, repository, packages)
    await addFirstVersions(t.db, repository)
    for (const { name } of packages) if (name.endsWith('99')) await markDeleted(t.db, repository, { name })
    const search = async (query: string) => {
      const found = (await publisher.ask(`search.json?${query}`)).json()
      return found as { results: { name: string; description: string }[]; total: number }
    }
    return { ...publisher, search }
  }

  it('finds names anywhere, the shortest first, and words of descriptions and keywords', async () => {
    const { search, repository } = await aLargeRegistry()
    const rows = await packageRows(t.db, repository)
    const order = (a: string, b: string) => a.length - b.length || (a < b ? -1 : 1)
    const listed = rows.filter(({ isListed }) => isListed)
    const expected = (words: string[]) => {
      const isIn = (text: string) => words.every((word) => text.includes(word))
      const named = listed.filter(({ name }) => isIn(name)).map(({ name }) => name)
      const others = listed.filter(({ name, texts }) => !isIn(name) && isIn(texts)).map(({ name }) => name)
      return { named: named.toSorted(order), others: others.toSorted(order) }
    }
    // Rare and frequent words: only in short or long names, in descriptions or keywords, or in no package.
    for (const words of [
      ['xx5'],
      ['console-xxx'],
      ['4321'],
      ['öü', '4321'],
      ['needle'],
      ['vendor7/', 'mail'],
      ['nowhere'],
      ['xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'],
      ['router'],
      ['um', '4321'],
      ['vendor49/', 'view-', '5849'],
      // Letters that are not ASCII, also fewer than three, and what a pattern would give a meaning.
      ['日志'],
      ['志'],
      ['ключ'],
      ['00%_s'],
      ['c:\\zoo'],
      // Two letters at the start of a name, and words of punctuation with two letters.
      ['zq'],
      ['/zq'],
      ['zq-'],
      // More words than are looked up.
      [
        'is',
        'of',
        'and',
        'ключ',
        '100',
        'sure',
        'zoo',
        'c:',
        'vendor',
        'a-long',
        'long-long',
        'ong',
        'lon',
        '-lo',
      ],
    ]) {
      const { named, others } = expected(words)
      const { results } = await search(`q=${encodeURIComponent(words.join(' '))}`)
      const names = results.map(({ name }) => name)
      expect([words, names]).toEqual([words, [...named, ...others].slice(0, 100)])
    }
  })

  it('counts frequent matches up to some thousand, and filters by type', async () => {
    const { search } = await aLargeRegistry()
    const frequent = await search('q=umlaute')
    expect(frequent.results).toHaveLength(100)
    expect(frequent.results.every(({ description }) => description.includes('Umlaute'))).toBe(true)
    expect(frequent.total).toBeGreaterThanOrEqual(100)
    const plugins = (await search('type=composer-plugin')).results.map(({ name }) => name)
    const numbers = plugins.map((name) => Number(/\d+$/.exec(name)?.[0]))
    expect(numbers.toSorted((a, b) => a - b)).toEqual([5, 2005, 4005])
    expect((await search('q=2005&type=composer-plugin')).results).toHaveLength(1)
    expect(await search('q=2005&type=nothing')).toEqual({ results: [], total: 0 })
    expect((await search('')).results).toHaveLength(100)
    expect((await search('q=q')).results.length).toBeGreaterThan(0)
  })
})

describe('GET list.json', () => {
  it('lists 10,000 names at once, and links to the rest', async () => {
    const { ask, push, repository } = await aPublisher(t)
    await push('1.0.0')
    const many = Array.from({ length: 10_100 }, (_, i) => `many/lib${i + 1}`)
    await addPackages(t.db, repository, many)
    await addFirstVersions(t.db, repository)
    const first = await ask('list.json?vendor=many')
    const [, next = ''] =
      /<http:\/\/svc\.test\/[^>]*\/(list\.json[^>]*)>; rel="next"/.exec(String(first.headers.link)) ?? []
    const second = await ask(next)
    const names = [...first.json().packageNames, ...second.json().packageNames] as string[]
    expect([first.json().packageNames.length, names.length]).toEqual([10_000, 10_100])
    expect(names).toEqual([...new Set(names)].toSorted())
    expect(second.headers.link).toBeUndefined()
  })

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
  it('counts by version and day, and ignores unknown versions', async () => {
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
    const counts = () => downloadDays(t.db, repository)
    await expect.poll(counts).toEqual([
      { name: 'acme/log', count: 4, daysAgo: 0 },
      { name: 'acme/log-viewer', count: 2, daysAgo: 0 },
    ])
    expect((await ask('search.json?q=acme/log')).json().results[0].downloads).toBe(4)
  })

  it.each(['', 'hello', '[]', '{}', '{"downloads":1}', 'null'])(
    'refuses %j with errcode 3',
    async (payload) => {
      const { ask } = await aPublisher(t)
      const response = await ask('downloads', { method: 'POST', payload })
      expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
    },
  )

  it('limits the entries and bytes of one request', async () => {
    const { ask, push } = await aPublisher(t)
    await push('1.0.0')
    const many = Array.from({ length: 1500 }, () => ({ name: 'acme/lib', version: '1.0.0.0' }))
    await ask('downloads', { method: 'POST', payload: JSON.stringify({ downloads: many }) })
    await expect
      .poll(async () => (await ask('search.json?q=acme/lib')).json().results[0].downloads)
      .toBe(1000)
    const huge = await ask('downloads', { method: 'POST', payload: ' '.repeat(600 * 1024) })
    expect([huge.statusCode, huge.json().errcode]).toEqual([413, 8])
  })
})

import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { expand } from '../support/registry-actors.ts'
import { countRows } from '../support/rows.ts'
import {
  distElsewhere,
  followUpstreams,
  minifiedDocument,
  upstreamsHere,
  useUpstream,
} from '../support/upstream.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()

/** On the main thread, each of these documents takes two to five times as long on a fast machine. */
const maxStallMilliseconds = 100

/** Returns how long the main thread has run, in milliseconds. Other work on the machine does not count. */
function timeOnCpu(): number {
  const [nanoseconds] = readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'utf8').split(' ')
  return Number(nanoseconds) / 1e6
}

/** Returns the longest time that the main thread ran during the work without a turn for a timer. */
async function stallDuring<T>(work: () => Promise<T>): Promise<{ result: T; milliseconds: number }> {
  let milliseconds = 0
  let last = timeOnCpu()
  const look = () => {
    const now = timeOnCpu()
    milliseconds = Math.max(milliseconds, now - last)
    last = now
  }
  const timer = setInterval(look, 1)
  const result = await work()
  // The work may have ended before the timer got its turn.
  await new Promise((resolve) => setTimeout(resolve, 20))
  clearInterval(timer)
  look()
  return { result, milliseconds }
}

async function aMirror(settings: object = {}) {
  const caller = await aCaller(t)
  const added = await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public', ...settings })
  expect(added.statusCode).toBe(201)
  return caller
}

/** Makes the upstream serve bytes that were compressed before, so that it does no work itself. */
function serve(path: string, document: string | object) {
  const text = typeof document === 'string' ? document : JSON.stringify(document)
  const body = gzipSync(text)
  upstream.fail(path, (_, response) =>
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': body.length }).end(body),
  )
}

const requires = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`acme/lib${i}`, '^1.0']))
const realistic = (name: string) => ({
  packages: {
    [name]: Array.from({ length: 3000 }, (_, i) => ({
      name,
      version: `1.${i}.0`,
      dist: { ...distElsewhere, reference: i.toString(16).padStart(40, '0') },
      description: 'A library for the event loop',
      keywords: ['one', 'two', 'three'],
      authors: [{ name: 'Ann', email: 'ann@example.com' }],
      require: requires(20),
      autoload: { 'psr-4': { 'Acme\\Lib\\': 'src/' } },
    })),
  },
})

/** The document that is served. Without this, the test itself would make texts of many megabytes of it. */
const compressed = { headers: { 'accept-encoding': 'gzip' } }

describe('the event loop', () => {
  it.each<[string, (name: string) => object]>([
    ['as many values as allowed', (name) => minifiedDocument(name, 1, {}, { x: Array(490_000).fill([]) })],
    [
      '100 versions with 6,000 requirements',
      (name) => minifiedDocument(name, 100, { require: requires(6_000) }),
    ],
    ['30,000 versions', (name) => minifiedDocument(name, 30_000, {})],
    ['a real document of 3,000 versions', realistic],
    ['15 MB in an unknown key', (name) => minifiedDocument(name, 1, {}, { x: 'é'.repeat(7_500_000) })],
    [
      'advisories for all versions',
      (name) =>
        minifiedDocument(
          name,
          1500,
          {},
          {
            'security-advisories': Array.from({ length: 400 }, (_, i) => ({
              advisoryId: `A${i}`,
              affectedVersions: `<0.${i}`,
            })),
          },
        ),
    ],
  ])('is not blocked by %s', async (what, document) => {
    const { ask } = await aMirror({ minimum_age_hours: 1 })
    const name = `loop/doc-${what.replace(/\W+/g, '-').toLowerCase()}`
    serve(`/p2/${name}.json`, document(name))
    const { result, milliseconds } = await stallDuring(() => ask(`p2/${name}.json`, compressed))
    expect(result.statusCode).toBe(200)
    expect(milliseconds).toBeLessThan(maxStallMilliseconds)
  })

  it('is not blocked by eight hostile documents at once, and others are served beside them', async () => {
    const { ask } = await aMirror()
    const hostile = Array.from({ length: 8 }, (_, i) => `eight/hostile${i}`)
    for (const name of hostile)
      serve(
        `/p2/${name}.json`,
        minifiedDocument(name, 100, { require: requires(2_000) }, { x: Array(300_000).fill([]) }),
      )
    upstream.put('/other/packages.json', { packages: [], 'metadata-url': '/p2/%package%.json' })
    upstream.offer('eight/healthy', ['1.0.0'])
    const other = await aMirror({ url: `${upstream.url}/other`, name: 'other' })
    const { result, milliseconds } = await stallDuring(async () => {
      const attack = Promise.all(hostile.map((name) => ask(`p2/${name}.json`)))
      const healthy = await other.ask('p2/eight/healthy.json')
      return [healthy.statusCode, (await attack).map(({ statusCode }) => statusCode)]
    })
    expect(result).toEqual([200, hostile.map(() => 200)])
    expect(milliseconds).toBeLessThan(maxStallMilliseconds)
  })

  it('is not blocked by packages.json with all packages, and serves each of them', async () => {
    const inline = (i: number) => ({
      packages: {
        [`inline/lib${i}`]: minifiedDocument(`inline/lib${i}`, 1, { require: requires(20_000) }).packages[
          `inline/lib${i}`
        ],
      },
    })
    const all = Object.assign({}, ...Array.from({ length: 20 }, (_, i) => inline(i).packages))
    serve('/inline/packages.json', { packages: all, includes: { 'more.json': {} } })
    serve('/inline/more.json', {
      packages: { 'inline/lib0': [{ name: 'inline/lib0', version: '2.0.0', dist: distElsewhere }] },
    })
    const { result, milliseconds } = await stallDuring(async () => {
      const { ask } = await aMirror({ url: `${upstream.url}/inline` })
      return ask('p2/inline/lib0.json')
    })
    expect(expand(result.body, 'inline/lib0').map(({ version }) => version)).toEqual(['1.0.0', '2.0.0'])
    expect(milliseconds).toBeLessThan(maxStallMilliseconds)
  })

  it('is not blocked by a packages.json with very many names', async () => {
    const names = Array.from({ length: 450_000 }, (_, i) => `many/package-of-registry${i}`)
    serve('/names/packages.json', {
      'metadata-url': '/p2/%package%.json',
      'available-packages': names,
      'available-package-patterns': ['many/*'],
    })
    upstream.offer('unlisted/lib', ['1.0.0'])
    const { result, milliseconds } = await stallDuring(async () => {
      const { ask } = await aMirror({ url: `${upstream.url}/names` })
      return ask('p2/unlisted/lib.json')
    })
    // The list is too long to keep, so svc asks about every name.
    expect(result.statusCode).toBe(200)
    expect(milliseconds).toBeLessThan(maxStallMilliseconds)
  })

  it('is not blocked by advisories, searches, lists, providers, malware lists and change feeds', async () => {
    serve('/feeds/packages.json', {
      'metadata-url': '/p2/%package%.json',
      'metadata-changes-url': '/feeds/changes.json',
      'providers-api': '/feeds/providers/%package%.json',
      search: '/feeds/search.json?q=%query%&type=%type%',
      list: '/feeds/list.json',
      'security-advisories': { 'api-url': '/feeds/advisories', metadata: true },
      filter: { metadata: true, 'summary-url': '/feeds/filter.json' },
    })
    const many = <T>(count: number, of: (i: number) => T) => Array.from({ length: count }, (_, i) => of(i))
    const { ask } = await aMirror({ url: `${upstream.url}/feeds` })
    upstream.offer('feeds/lib', ['1.0.0'])
    expect((await ask('p2/feeds/lib.json')).statusCode).toBe(200)
    const advisory = (i: number) => ({
      advisoryId: `A${i}`,
      packageName: 'feeds/lib',
      title: 'x'.repeat(40),
      sources: [],
      affectedVersions: '<1',
      reportedAt: '2025-01-01 00:00:00',
    })
    serve('/feeds/advisories', {
      advisories: { 'feeds/lib': many(6000, advisory), 'feeds/other': many(60_000, advisory) },
    })
    serve('/feeds/search.json?q=needle&type=', {
      results: many(150_000, (i) => ({ name: `found/p${i}`, description: 'x'.repeat(50) })),
    })
    serve('/feeds/list.json?filter=*hay*', { packageNames: many(450_000, (i) => `found/hay${i}`) })
    serve('/feeds/providers/some/name.json', {
      providers: many(160_000, (i) => ({ name: `found/p${i}`, description: 'x'.repeat(50) })),
    })
    serve('/feeds/filter.json', {
      filter: { malware: Object.fromEntries(many(110_000, (i) => [`found/p${i}`, '*'])) },
    })
    serve('/feeds/changes.json', { timestamp: 1 })
    serve('/feeds/changes.json?since=1', {
      timestamp: 2,
      actions: many(100_000, (i) => ({ type: 'update', package: `found/p${i}`, time: 1 })),
    })
    const { result: audited, milliseconds: auditStall } = await stallDuring(() =>
      ask('security-advisories', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        payload: 'packages[]=feeds/lib',
      }),
    )
    expect(audited.json().advisories['feeds/lib']).toHaveLength(6000)
    expect(auditStall).toBeLessThan(maxStallMilliseconds)
    const { milliseconds } = await stallDuring(() => followUpstreams(t))
    expect(milliseconds).toBeLessThan(maxStallMilliseconds)
    expect(await countRows(t.db, 'upstream_flag')).toBe(100_000)
    for (const path of ['search.json?q=needle', 'list.json?filter=*hay*', 'providers/some/name.json']) {
      const { result, milliseconds: stall } = await stallDuring(() => ask(path))
      expect(result.body).toContain('found/')
      expect(stall).toBeLessThan(maxStallMilliseconds)
    }
  })
})

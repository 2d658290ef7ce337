import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { expand } from '../support/registry-actors.ts'
import { followUpstreams, minifiedDocument, upstreamsHere, useUpstream } from '../support/upstream.ts'
import { ageFeedChecks, upstreamDocuments, upstreamRows } from '../support/upstream-rows.ts'

const t = useApp(upstreamsHere)
const upstream = useUpstream()

async function aMirror(settings: object = {}) {
  const caller = await aCaller(t)
  const added = await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public', ...settings })
  expect(added.statusCode).toBe(201)
  const versions = async (name: string) => {
    const response = await caller.ask(`p2/${name}.json`)
    if (response.statusCode !== 200) return response.statusCode
    return expand(response.body, name).map(({ version }) => version)
  }
  return { ...caller, versions }
}

/** The text of a minified document. */
const minified = (...about: Parameters<typeof minifiedDocument>) => JSON.stringify(minifiedDocument(...about))
const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)

describe('a document of a hostile upstream', () => {
  it('may have NULs, which PostgreSQL cannot store, in any text', async () => {
    const { versions } = await aMirror()
    upstream.offer(
      'zeros/lib',
      [
        { version: '1.1.0', dist: { type: 'zip', url: `${upstream.url}/\0.zip`, reference: 'abcdef1' } },
        '1.0.0',
      ],
      { document: { filter: { malware: [{ constraint: '0.1.0', reason: 'a\0b' }] } } },
    )
    expect(await versions('zeros/lib')).toContain('1.0.0')
  })

  it('may be nested so deeply that PHP and the stack cannot read it', async () => {
    const { versions, ask } = await aMirror()
    for (const depth of [500, 200_000]) {
      const name = `deep/lib${depth}`
      upstream.offer(name, ['1.1.0', '1.0.0'])
      const good = (version: string) =>
        `{"name":"${name}","version":"${version}","dist":{"type":"zip","url":"${upstream.url}/a.zip","reference":"abcdef1"}`
      upstream.put(
        `/p2/${name}.json`,
        `{"packages":{"${name}":[${good('1.1.0')},"extra":${nested(depth)}},${good('1.0.0')}}]},"other":${nested(depth)}}`,
      )
      expect(await versions(name)).toEqual(['1.0.0'])
      expect((await ask(`p2/${name}.json`)).json()).not.toHaveProperty('other')
    }
  })

  it.each(['plain', 'minified'])('may name members of JavaScript objects in a version (%s)', async (kind) => {
    const { ask } = await aMirror()
    const name = `proto/${kind}`
    const names = ['__proto__', 'constructor', '__defineGetter__', 'hasOwnProperty', 'toString', 'valueOf']
    const odd = names.map((key) => `"${key}":{"a":"b"}`).join()
    const entry = (version: string) =>
      `"name":"${name}","version":"${version}","dist":{"type":"zip","url":"${upstream.url}/a.zip","reference":"abcdef1"}`
    upstream.put(
      `/p2/${name}.json`,
      `{${kind === 'minified' ? '"minified":"composer/2.0",' : ''}${odd},"packages":{"${name}":[
        {${entry('1.3.0')}},{${entry('1.2.0')},${odd}},{${entry('1.1.0')},"__proto__":{}},{${entry('1.0.0')}}]}}`,
    )
    const response = await ask(`p2/${name}.json`)
    expect(response.statusCode).toBe(200)
    const [newest, odder, , last] = JSON.parse(response.body).packages[name]
    expect(Object.keys(newest)).not.toContain('constructor')
    expect(Object.keys(odder)).toEqual(expect.arrayContaining(names))
    expect(JSON.stringify(last)).toContain(kind === 'minified' ? '"1.0.0"' : '"__proto__":"__unset"')
    expect(({} as Record<string, unknown>)['a']).toBeUndefined()
  })

  it.each<[string, (name: string) => string, string]>([
    [
      'is unpacked',
      () => `{}${' '.repeat(16 * 1024 * 1024)}`,
      `a document has more than ${16 * 1024 * 1024} bytes`,
    ],
    [
      'is parsed, because of its values',
      (name) => `{"packages":{"${name}":[]},"x":[${'[],'.repeat(500_000)}0]}`,
      'has more than 500000 values',
    ],
    [
      'is expanded, because of its versions',
      (name) => minified(name, 100_001, {}),
      'has more than 100000 versions',
    ],
    [
      'is expanded, because of its size then',
      (name) => minified(name, 400, { description: 'x'.repeat(50_000) }),
      'is too large when it is expanded',
    ],
    [
      'is expanded, because of its values then',
      (name) => minified(name, 100, { extra: Array(11_000).fill(0) }),
      'is too large when it is expanded',
    ],
    [
      'is compared with constraints',
      (name) =>
        minified(
          name,
          30_000,
          {},
          { 'security-advisories': Array(200).fill({ affectedVersions: '<1.0.0' }) },
        ),
      'has too many advisories and flags',
    ],
  ])('is refused before it %s', async (when, document, failure) => {
    const { versions } = await aMirror()
    const name = `early/${when.replace(/\W+/g, '-')}`
    const body = gzipSync(document(name))
    upstream.fail(`/p2/${name}.json`, (_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': body.length }).end(body),
    )
    expect(await versions(name)).toBe(503)
    const stored = await upstreamDocuments(t.db, name)
    expect(stored.map((one) => one.failure)).toEqual([expect.stringContaining(failure)])
  })

  it('may have constraints that would take minutes to read', async () => {
    const { versions } = await aMirror({ minimum_age_hours: 72 })
    const affectedVersions = `<1 ${' '.repeat(300_000)}x`
    upstream.offer(
      'slow/constraint',
      [{ version: '1.1.0', 'published-time': new Date().toISOString() }, '1.0.0'],
      {
        document: { 'security-advisories': [{ advisoryId: 'A', affectedVersions }] },
      },
    )
    expect(await versions('slow/constraint')).toEqual(['1.0.0'])
  })

  it('may give a version the normalized form of another one, which Composer would use', async () => {
    const { ask, versions } = await aMirror({ deny: ['norm/lib:^1'] })
    upstream.offer('norm/lib', [
      { version: '2.0.0', version_normalized: '1.0.0.0' },
      { version: '1.0.0', version_normalized: '9.0.0.0' },
    ])
    expect(await versions('norm/lib')).toEqual(['2.0.0'])
    const [entry] = JSON.parse((await ask('p2/norm/lib.json')).body).packages['norm/lib']
    expect(entry.version_normalized).toBe('2.0.0.0')
  })

  it('may name times that no calendar has', async () => {
    const { versions } = await aMirror({ minimum_age_hours: 72 })
    upstream.offer('time/lib', [
      { version: '1.6.0', 'published-time': '+275760-09-12T23:00:00Z' },
      { version: '1.5.0', 'published-time': '9999-12-31T23:59:59Z' },
      { version: '1.4.0', 'published-time': '-271821-04-20T00:00:00Z' },
      { version: '1.3.0', 'published-time': 'tomorrow' },
      { version: '1.2.0', 'published-time': 12 },
      '1.0.0',
    ])
    expect(await versions('time/lib')).toEqual(['1.0.0'])
    upstream.offer('time/last', [{ version: '1.0.0', 'published-time': '+275760-09-12T23:00:00Z' }])
    expect(await versions('time/last')).toEqual([])
  })
})

describe('packages.json of a hostile upstream', () => {
  it('may have NULs and lone surrogates in its patterns', async () => {
    upstream.put('/odd/packages.json', {
      'metadata-url': '/p2/%package%.json',
      'available-package-patterns': ['a\0b/*', '\ud800/*', 'zeros/*'],
    })
    upstream.offer('zeros/known', ['1.0.0'])
    const { versions } = await aMirror({ url: `${upstream.url}/odd` })
    expect(await versions('zeros/known')).toEqual(['1.0.0'])
  })

  it('may have includes that are too large together', async () => {
    const includes = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`inc${i}.json`, { sha1: '' }]))
    upstream.put('/many/packages.json', { packages: [], includes })
    for (const name of Object.keys(includes))
      upstream.put(`/many/${name}`, `{"packages":{},"x":"${'x'.repeat(10_000_000)}"}`)
    const caller = await aCaller(t)
    const refused = await caller.call('POST', '/upstreams', { url: `${upstream.url}/many` })
    expect([refused.statusCode, refused.json().errmsg]).toEqual([400, expect.stringContaining('too large')])
    expect(upstream.requests.filter((request) => request.includes('/many/inc')).length).toBeLessThan(10)
  })

  it('may name an include that is not JSON, with control characters', async () => {
    upstream.put('/ctl/packages.json', { packages: [], includes: {} })
    const { versions } = await aMirror({ url: `${upstream.url}/ctl` })
    upstream.put('/ctl/packages.json', { packages: [], includes: { 'a\0\u001b[31m': {} } })
    upstream.put('/ctl/a%00%1B[31m', 'not JSON')
    expect(await versions('any/lib')).toBe(503)
  })
})

describe('the feeds of a hostile upstream', () => {
  it('do not stop the job for other upstreams', async () => {
    for (const path of ['/bad', '/good']) {
      upstream.put(`${path}/packages.json`, {
        'metadata-url': '/p2/%package%.json',
        'metadata-changes-url': `${path}/changes.json`,
        filter: { metadata: true, 'summary-url': `${path}/filter.json` },
      })
      upstream.put(`${path}/changes.json`, { error: 'since', timestamp: 1000 })
    }
    upstream.put('/bad/changes.json?since=1000', {
      actions: [{ type: 'update', package: 'a\0/b', time: 1 }],
      timestamp: 1001,
    })
    upstream.put('/bad/filter.json', { filter: { malware: { 'a\0/b': '1.0', 'flagged/lib': '1.1.0' } } })
    upstream.put('/good/changes.json?since=1000', { actions: [], timestamp: 1001 })
    upstream.put('/good/filter.json', { filter: { malware: {} } })
    const bad = await aMirror({ url: `${upstream.url}/bad` })
    upstream.offer('flagged/lib', ['1.1.0', '1.0.0'])
    await bad.versions('flagged/lib')
    const good = await aMirror({ url: `${upstream.url}/good` })
    await followUpstreams(t)
    expect(await upstreamRows(t.db, good.repository)).toMatchObject([{ feedSince: '1001' }])
    expect(await bad.versions('flagged/lib')).toEqual(['1.0.0'])

    // The list of malware is read even while the change feed fails.
    upstream.fail('/bad/changes.json?since=1001', 500)
    upstream.put('/bad/filter.json', { filter: { malware: { 'flagged/lib': '*' } } })
    await ageFeedChecks(t.db)
    await followUpstreams(t)
    expect(await bad.versions('flagged/lib')).toEqual([])
  })
})

import { describe, expect, it } from 'vitest'
import { deleteExpiredMisses } from '../../src/upstreams/tables/upstream-documents.ts'
import { buildApp } from '../../src/web/server/app.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aCaller } from '../support/api-actors.ts'
import { useAnotherProcess, useApp } from '../support/app.ts'
import { eventsOf } from '../support/event-rows.ts'
import {
  ageDueDocuments,
  ageFirstSights,
  ageMetapackages,
  countMetapackages,
  mirroredDocuments,
  mirroredPackages,
} from '../support/mirrored-rows.ts'
import { expand } from '../support/registry-actors.ts'
import { untilTrue } from '../support/until.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import {
  ageDocuments,
  ageRoots,
  extendRest,
  forgetRootKey,
  setFollowedHours,
  takeCheck,
  upstreamDocuments,
} from '../support/upstream-rows.ts'

const t = useApp({ ...upstreamsHere, BASE_URL: 'http://svc.test' })
const upstream = useUpstream()
const second = useAnotherProcess(t)

/** An admin of a repository that offers the upstream's packages. */
async function aMirror(settings: object = {}) {
  const caller = await aCaller(t)
  const added = await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public', ...settings })
  expect(added.statusCode).toBe(201)
  const versions = async (name: string, suffix = '') => {
    const response = await caller.ask(`p2/${name}${suffix}.json`)
    if (response.statusCode !== 200) return response.statusCode
    return expand(response.body, name).map(({ version }) => version)
  }
  return { ...caller, versions }
}

const askedFor = (name: string) => upstream.requests.filter((request) => request.includes(`/p2/${name}`))
const age = (name: string) => ageDocuments(t.db, { name })
/** Repeats the request until the document is as expected, because a check runs in the background. */
async function eventually<T>(ask: () => Promise<T>, isDone: (value: T) => boolean): Promise<T> {
  let value = await ask()
  await untilTrue(
    async () => {
      if (!isDone(value)) value = await ask()
      return isDone(value)
    },
    () => 'it never came to be',
  )
  return value
}

describe('p2 of a mirrored package', () => {
  it('is the upstream’s document with our archive URLs, without sources, and minified', async () => {
    const { ask, path } = await aMirror()
    upstream.offer(
      'psr/log',
      [
        {
          version: '3.0.0',
          description: 'Common interface',
          require: { php: '>=8.0' },
          extra: { 'branch-alias': { 'dev-main': '3.x-dev' } },
          'notification-url': 'https://tracker.example.com/',
          mirrors: [{ url: 'https://mirror.example.com' }],
        },
        { version: '2.0.0', description: 'Common interface' },
      ],
      { document: { 'security-advisories': [{ advisoryId: 'A-1', affectedVersions: '<2' }] } },
    )
    const response = await ask('p2/psr/log.json')
    expect(response.statusCode).toBe(200)
    expect(response.headers['last-modified']).toBeDefined()
    expect(response.headers['content-type']).toBe('application/json')
    const document = response.json()
    expect(document).toMatchObject({
      minified: 'composer/2.0',
      'security-advisories': [{ advisoryId: 'A-1', affectedVersions: '<2' }],
    })
    expect(document.packages['psr/log'][1]).not.toHaveProperty('description')
    const [first, second] = expand(response.body, 'psr/log')
    expect(first).toMatchObject({
      name: 'psr/log',
      version: '3.0.0',
      extra: { 'branch-alias': { 'dev-main': '3.x-dev' } },
      dist: { type: 'zip', shasum: '', reference: expect.stringMatching(/^[0-9a-f]{40}$/) },
    })
    const { url, reference } = { ...(first?.['dist'] as object) } as { url: string; reference: string }
    expect(url).toBe(`http://svc.test${path}dist/psr/log/3.0.0/${reference}.zip`)
    for (const key of ['source', 'notification-url', 'transport-options'])
      expect(first).not.toHaveProperty(key)
    expect(second).toMatchObject({ version: '2.0.0' })
    expect(second).not.toHaveProperty('require')
    const again = await ask('p2/psr/log.json', {
      headers: { 'if-modified-since': response.headers['last-modified'] as string },
    })
    expect([again.statusCode, again.body]).toEqual([304, ''])
  })

  it('has no control characters and no transport-options, and is otherwise the same', async () => {
    const { ask } = await aMirror()
    const text = 'one\ttwo\r\nthree é 😀 \\b \\u0007'
    upstream.offer(
      'odd/lib',
      [
        {
          version: '1.0.0',
          description: `\u001b[31m${text}\u0000\u0007\u007f\u009b\b\f`,
          extra: { 'a\u001bb': [`\u009d${text}`], 'transport-options': { ssl: {} } },
          'transport-options': { ssl: { verify_peer: false } },
          keywords: [text],
        },
      ],
      { document: { warning: '\u001b]0;title\u0007', infos: [{ message: text }] } },
    )
    const response = await ask('p2/odd/lib.json')
    const [entry] = expand(response.body, 'odd/lib')
    expect(entry).toMatchObject({ description: `[31m${text}`, extra: { ab: [text] }, keywords: [text] })
    expect(response.json()).toMatchObject({ warning: ']0;title', infos: [{ message: text }] })
    expect(response.body).not.toContain('transport-options')
  })

  it('is fetched once for many requests on many processes', async () => {
    const { path, authorization } = await aMirror()
    upstream.offer('flight/one', ['1.0.0'])
    const before = askedFor('flight/one').length
    const ask = (app: typeof t.app) =>
      app.inject({ url: `${path}p2/flight/one.json`, headers: { authorization } })
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, i) => ask(i % 2 === 0 ? t.app : second.app)),
    )
    expect(new Set(responses.map(({ statusCode }) => statusCode))).toEqual(new Set([200]))
    expect(askedFor('flight/one').length - before).toBe(1)
  })

  it('is correct for each of many names that are first requested at once, on two processes', async () => {
    const { path, authorization } = await aMirror()
    const names = Array.from({ length: 24 }, (_, i) => `crowd/lib${i}`)
    for (const [i, name] of names.entries()) {
      upstream.offer(name, [`1.${i}.0`])
      upstream.offer(name, ['dev-main'], { isDev: true })
    }
    await ageRoots(t.db, 24)
    const roots = () => upstream.requests.filter((request) => request === 'GET /packages.json').length
    const [before, rootsBefore] = [askedFor('crowd/').length, roots()]
    const responses = await Promise.all(
      names.flatMap((name, i) =>
        ['', '~dev'].map((suffix) =>
          (i % 2 === 0 ? t.app : second.app).inject({
            url: `${path}p2/${name}${suffix}.json`,
            headers: { authorization },
          }),
        ),
      ),
    )
    const versions = responses.map(({ body }, i) =>
      expand(body, names[i >> 1] ?? '').map(({ version }) => version),
    )
    expect(versions).toEqual(names.flatMap((_, i) => [[`1.${i}.0`], ['dev-main']]))
    expect(askedFor('crowd/').length - before).toBe(2 * names.length)
    // Each check may find packages.json outdated, but svc does not read it again for each of them.
    expect(roots() - rootsBefore).toBeLessThan(names.length)
    const first = await eventsOf(t.db, { action: 'mirror-package' }, ['package'])
    expect(first.filter((event) => event.package?.startsWith('crowd/'))).toHaveLength(names.length)
  })

  it('keeps a description without its NULs, which PostgreSQL cannot store', async () => {
    const { versions } = await aMirror()
    upstream.offer('zero/lib', [{ version: '1.0.0', description: 'a\0b' }])
    expect(await versions('zero/lib')).toEqual(['1.0.0'])
    expect(await mirroredPackages(t.db, 'zero/lib')).toMatchObject([{ description: 'ab' }])
  })

  it('is checked again when it is old, and served stale while that runs', async () => {
    const { ask, versions } = await aMirror()
    upstream.offer('stale/one', ['1.0.0'])
    const first = await ask('p2/stale/one.json')
    upstream.offer('stale/one', ['1.1.0', '1.0.0'])
    expect(await versions('stale/one')).toEqual(['1.0.0'])
    expect(askedFor('stale/one')).toHaveLength(1)
    await age('stale/one')
    expect(await versions('stale/one')).toEqual(['1.0.0'])
    await eventually(
      () => versions('stale/one'),
      (found) => found.toString() === '1.1.0,1.0.0',
    )
    const last = await ask('p2/stale/one.json')
    expect(Date.parse(String(last.headers['last-modified']))).toBeGreaterThan(
      Date.parse(String(first.headers['last-modified'])),
    )
  })

  it('is checked again when the process that checked it was killed, although the change feed counts it as fresh', async () => {
    const { versions } = await aMirror()
    upstream.offer('killed/one', ['1.0.0'])
    await versions('killed/one')
    await setFollowedHours(t.db, 24)
    upstream.offer('killed/one', ['1.1.0', '1.0.0'])
    await takeCheck(t.db, 'killed/one', -1)
    await eventually(
      () => versions('killed/one'),
      (found) => found.toString() === '1.1.0,1.0.0',
    )
    await setFollowedHours(t.db, null)
  })

  it('does not delay a stop while another process checks it', async () => {
    const { path, authorization, versions } = await aMirror()
    upstream.offer('busy/one', ['1.0.0'])
    await versions('busy/one')
    await age('busy/one')
    await takeCheck(t.db, 'busy/one', 45)
    const stopping = await buildApp({ config: t.config, db: t.db }, openLog('silent'))
    const served = await stopping.inject({ url: `${path}p2/busy/one.json`, headers: { authorization } })
    expect(served.statusCode).toBe(200)
    await stopping.close()
    const held = (await upstreamDocuments(t.db, 'busy/one')).filter(({ checkingUntil }) => checkingUntil)
    expect(held).toHaveLength(1)
    expect(held[0]?.checkingUntil?.getTime()).toBeGreaterThan(Date.now())
    expect(askedFor('busy/one')).toHaveLength(1)
  })

  it('keeps its Last-Modified when the upstream says the same', async () => {
    const { ask } = await aMirror()
    upstream.offer('same/one', ['1.0.0'])
    const first = await ask('p2/same/one.json')
    const checkUntil = (requests: number) =>
      eventually(
        async () => {
          await age('same/one')
          await ask('p2/same/one.json')
          return askedFor('same/one').length
        },
        (count) => count >= requests,
      )
    await checkUntil(2)
    upstream.offer('same/one', ['1.0.0'])
    await checkUntil(askedFor('same/one').length + 2)
    expect((await ask('p2/same/one.json')).headers['last-modified']).toBe(first.headers['last-modified'])
  })

  it.each([
    [
      '500',
      (_: unknown, response: { writeHead: (n: number) => { end: () => void } }) =>
        response.writeHead(500).end(),
    ],
    [
      'HTML',
      (_: unknown, response: { end: (text: string) => void }) => response.end('<html>Maintenance</html>'),
    ],
    [
      'JSON',
      (_: unknown, response: { end: (text: string) => void }) => response.end('{"error":"overloaded"}'),
    ],
  ])('survives an upstream that sends %s, with a warning', async (kind, fault) => {
    const { ask } = await aMirror()
    const name = `outage/a${kind.toLowerCase()}`
    upstream.offer(name, ['1.0.0'])
    await ask(`p2/${name}.json`)
    upstream.fail(`/p2/${name}.json`, fault as never)
    await age(name)
    await ask(`p2/${name}.json`)
    await eventually(
      async () => (await upstreamDocuments(t.db, name)).filter(({ failure }) => failure !== null).length,
      (count) => count === 1,
    )
    const stale = await ask(`p2/${name}.json`)
    expect(stale.json().warning).toContain(`The upstream of ${name} has failed since`)
    expect(expand(stale.body, name)).toMatchObject([{ version: '1.0.0' }])
    expect(stale.headers).not.toHaveProperty('last-modified')

    upstream.fail(`/p2/${name}.json`, null)
    await age(name)
    await eventually(
      () => ask(`p2/${name}.json`),
      (response) => response.json().warning === undefined,
    )
  })

  it('is 503 and not 404 while an upstream that was never read fails', async () => {
    const { ask } = await aMirror()
    upstream.offer('never/seen', ['1.0.0'])
    upstream.fail('/p2/never/seen.json', 500)
    const failed = await ask('p2/never/seen.json')
    expect([failed.statusCode, failed.json().errcode]).toEqual([503, 14])
    expect(Number(failed.headers['retry-after'])).toBeGreaterThan(0)
    const before = askedFor('never/seen').length
    // A busy machine may come here after these seconds.
    await extendRest(t.db, 'never/seen')
    expect((await ask('p2/never/seen.json')).statusCode).toBe(503)
    expect(askedFor('never/seen').length, 'a failing upstream is left alone for a while').toBe(before)
    upstream.fail('/p2/never/seen.json', null)
    await age('never/seen')
    expect((await ask('p2/never/seen.json')).statusCode).toBe(200)
  })

  it('asks a failing upstream again after five minutes at the latest, whatever its Retry-After is', async () => {
    const { ask } = await aMirror()
    const busy = (seconds: string) =>
      upstream.fail('/p2/busy/lib.json', (_, response) =>
        response.writeHead(503, { 'retry-after': seconds }).end(),
      )
    /** How long svc leaves the upstream alone, in begun hundreds of seconds. */
    const rests = async () =>
      (await upstreamDocuments(t.db, 'busy/lib')).map(({ retrySeconds }) =>
        Math.ceil((retrySeconds ?? 0) / 100),
      )
    busy('86400')
    expect((await ask('p2/busy/lib.json')).statusCode).toBe(503)
    expect(await rests()).toEqual([3])
    busy('100')
    await age('busy/lib')
    expect((await ask('p2/busy/lib.json')).statusCode).toBe(503)
    expect(await rests()).toEqual([1])
    upstream.fail('/p2/busy/lib.json', null)
  })

  it.each([
    { error: 'overloaded' },
    {},
    { packages: null },
    { packages: 'none' },
    { packages: { 'odd/json': 'overloaded' } },
  ])('is 503 for %j with status 200, and svc asks no other upstream', async (body) => {
    const other = `/other${Date.now()}`
    upstream.put(`${other}/packages.json`, { 'metadata-url': `${other}/p2/%package%.json` })
    const { ask, call } = await aMirror()
    await call('POST', '/upstreams', { url: upstream.url + other, name: 'second' })
    upstream.put('/p2/odd/json.json', body)
    const failed = await ask('p2/odd/json.json')
    expect([failed.statusCode, failed.json().errcode]).toEqual([503, 14])
    expect(Number(failed.headers['retry-after'])).toBeGreaterThan(0)
    expect(upstream.requests.filter((request) => request.includes(`${other}/p2/`))).toEqual([])
    upstream.offer('odd/json', ['1.0.0'])
    await age('odd/json')
    expect((await ask('p2/odd/json.json')).statusCode).toBe(200)
  })

  it.each([
    { packages: {} },
    { packages: [] },
    { packages: { 'other/name': [] } },
    { packages: { 'odd/none': null } },
  ])('is 404 for the metadata %j, which has other packages only', async (body) => {
    const { versions } = await aMirror()
    upstream.put('/p2/odd/none.json', body)
    expect(await versions('odd/none')).toBe(404)
  })

  it('is 404 for a name that no upstream has, and svc remembers that', async () => {
    const { versions } = await aMirror()
    expect(await versions('nobody/here')).toBe(404)
    const before = upstream.requests.length
    expect(await versions('nobody/here')).toBe(404)
    expect(upstream.requests.length).toBe(before)
  })

  it('leaves no row of a name that no upstream has, or about which it never responded', async () => {
    const { versions } = await aMirror()
    upstream.fail('/p2/swept/failing.json', 500)
    upstream.offer('swept/found', ['1.0.0'])
    await Promise.all(['swept/missing', 'swept/failing', 'swept/found'].map((name) => versions(name)))
    const names = async () => {
      await deleteExpiredMisses(t.db, 1000)
      const documents = await upstreamDocuments(t.db, /^swept\//)
      return documents.flatMap(({ name, isDev }) => (isDev ? [] : [name]))
    }
    expect(await names()).toEqual(['swept/failing', 'swept/found'])
    for (const name of ['swept/failing', 'swept/found']) await ageDocuments(t.db, { name, hours: 48 })
    expect(await names()).toEqual(['swept/found'])
  })

  it('knows a package that has only development versions', async () => {
    const { versions } = await aMirror()
    upstream.offer('only/dev', [{ version: 'dev-main', 'default-branch': true }], { isDev: true })
    expect(await versions('only/dev')).toBe(404)
    expect(await versions('only/dev', '~dev')).toEqual(['dev-main'])
  })

  it('keeps a package that the upstream no longer has, and says so', async () => {
    const { ask, call } = await aMirror()
    upstream.offer('gone/away', ['1.0.0'])
    await ask('p2/gone/away.json')
    upstream.put('/p2/gone/away.json', null)
    await age('gone/away')
    const kept = await eventually(
      () => ask('p2/gone/away.json'),
      ({ body }) => expand(body, 'gone/away')[0]?.['abandoned'] === true,
    )
    expect(expand(kept.body, 'gone/away')).toMatchObject([{ version: '1.0.0' }])
    expect((await call('GET', '/events')).body).toContain('upstream-gone')
  })

  it('drops a version that Composer cannot read, logs it once, and offers the others', async () => {
    const { versions, call } = await aMirror()
    const odd = [
      { version: '1.9.0', require: { 'acme/x': 'not a constraint !' } },
      { version: '1.8.0', type: 7 },
      { version: '1.7.0', time: 1234 },
      { version: '1.6.0', name: 'other/name' },
      { version: 'no version at all' },
      { version: '1.5.0', dist: null },
      { version: '1.4.0', dist: { type: 'path', url: '/etc', reference: 'a' } },
      { version: '1.3.0', autoload: 'src' },
      { version: '1.2.0', description: '\ud800' },
      { version: '1.1.9', 'autoload-dev': 'src' },
      { version: '1.1.8', archive: { name: ['x'] } },
      { version: '1.1.7', archive: { exclude: 'x' } },
      { version: '1.1.6', dist: { type: 'zip', url: upstream.url, reference: ['abcdef1'] } },
      { version: '1.1.5', dist: { type: 'zip', url: upstream.url, reference: 'abcdef1', shasum: 7 } },
      { version: '1.1.x-dev', extra: { 'branch-alias': { '1.1.x-dev': null } } },
    ]
    upstream.offer('odd/one', ['2.0.0', ...(odd as { version: string }[]), '1.0.0'])
    expect(await versions('odd/one')).toEqual(['2.0.0', '1.0.0'])
    const told = (await call('GET', '/events'))
      .json()
      .filter(({ action }: { action: string }) => action === 'drop-versions')
    expect(told).toMatchObject([{ package: 'odd/one', details: { count: 15 } }])
    upstream.put('/p2/odd/two.json', { packages: { 'odd/two': [null, 7, 'x', [], { version: '1.0.0' }] } })
    expect(await versions('odd/two')).toEqual([])
  })

  it('names the versions that the upstream offers only as source, in a warning and in the list of packages', async () => {
    const { ask, call } = await aMirror({ deny: ['source/lib:0.9.0'] })
    const old = ['1.6.0', '1.5.0', '1.4.0', '1.3.0', '1.2.0', '1.1.0', '0.9.0']
    upstream.offer('source/lib', ['2.0.0', ...old.map((version) => ({ version, dist: null }))], {
      document: { warning: 'Of the $1 "upstream".' },
    })
    const { warning, packages } = (await ask('p2/source/lib.json')).json()
    expect(packages['source/lib']).toMatchObject([{ version: '2.0.0' }])
    const ours =
      'These versions of source/lib are missing here, because the upstream offers them only as source, without an archive: 1.6.0, 1.5.0, 1.4.0, 1.3.0, 1.2.0 and 1 more.'
    expect(warning).toBe(`Of the $1 "upstream". ${ours}`)
    const [listed] = (await call('GET', '/mirrored-packages')).json()
    expect(listed.left_out).toHaveLength(7)
    expect(listed.left_out[6]).toBe('1.6.0: the upstream offers it only as source, without an archive')

    upstream.fail('/p2/source/lib.json', 500)
    await age('source/lib')
    const failing = await eventually(
      async () => (await ask('p2/source/lib.json')).json(),
      (document) => document.warning !== warning,
    )
    expect(failing.warning).toContain('The upstream of source/lib has failed since')
    expect(failing.warning).toContain(warning)
    expect(failing.packages).toEqual(packages)
    upstream.fail('/p2/source/lib.json', null)
  })

  it('keeps the source of versions where an admin chooses so, if Composer can use it', async () => {
    const { ask, call } = await aMirror()
    const source = { type: 'git', url: 'https://git.example.com/x.git', reference: 'ab'.repeat(20) }
    upstream.offer('kept/source', [
      { version: '1.2.0', source: { ...source, mirrors: [{ url: 'https://mirror.example.com' }] } },
      { version: '1.1.0', source: { ...source, type: 'path', url: '/etc' } },
      { version: '1.0.0', source: { ...source, url: '--upload-pack=evil' } },
    ])
    const sources = async () =>
      expand((await ask('p2/kept/source.json')).body, 'kept/source').map(({ source }) => source)
    expect(await sources()).toEqual([undefined, undefined, undefined])
    const changed = await call('PATCH', '/upstreams/public', { keeps_source: true })
    expect(changed.json()).toMatchObject({ keeps_source: true })
    expect(await sources()).toEqual([source, undefined, undefined])
    // The document is read again as a whole: an earlier release may have stored it without its source.
    await eventually(
      async () => askedFor('kept/source').length,
      (count) => count === 2,
    )
    expect(upstream.lastHeaders).not.toHaveProperty('if-modified-since')
    await call('PATCH', '/upstreams/public', { keeps_source: false })
    expect(await sources()).toEqual([undefined, undefined, undefined])
  })

  it('keeps a metapackage, which has no archive', async () => {
    const { versions } = await aMirror()
    upstream.offer('meta/one', [
      { version: '1.0.0', type: 'metapackage', dist: null, require: { 'psr/log': '*' } },
    ])
    expect(await versions('meta/one')).toEqual(['1.0.0'])
  })

  it('expands minified documents of the upstream', async () => {
    const { ask } = await aMirror()
    const dist = { type: 'zip', url: `${upstream.url}/a.zip`, reference: 'abcdef1' }
    upstream.put('/p2/mini/one.json', {
      minified: 'composer/2.0',
      packages: {
        'mini/one': [
          { name: 'mini/one', version: '2.0.0', dist, require: { php: '>=8' }, license: ['MIT'] },
          { version: '1.0.0', require: '__unset' },
        ],
      },
    })
    const [, second] = expand((await ask('p2/mini/one.json')).body, 'mini/one')
    expect(second).toMatchObject({ version: '1.0.0', license: ['MIT'] })
    expect(second).not.toHaveProperty('require')
  })
})

describe('the patterns of an upstream', () => {
  it('allow and deny names and versions, at once when they change', async () => {
    upstream.offer('symfony/console', ['7.1.0', '7.0.0', '6.4.1', '6.4.0'])
    upstream.offer('evil/lib', ['1.0.0'])
    const { versions, call } = await aMirror({
      allow: ['symfony/*:^6 || ^7'],
      deny: ['symfony/console:6.4.1'],
    })
    expect(await versions('symfony/console')).toEqual(['7.1.0', '7.0.0', '6.4.0'])
    expect(await versions('evil/lib')).toBe(404)
    await call('PATCH', '/upstreams/public', { deny: ['symfony/console:>=7'] })
    expect(await versions('symfony/console')).toEqual(['6.4.1', '6.4.0'])
    await call('PATCH', '/upstreams/public', { deny: ['*/console'] })
    expect(await versions('symfony/console')).toBe(404)
    await call('PATCH', '/upstreams/public', { allow: [], deny: [] })
    expect(await versions('evil/lib')).toEqual(['1.0.0'])
    await call('PATCH', '/upstreams/public', { mode: 'off' })
    expect(await versions('evil/lib')).toBe(404)
  })

  it('offer only approved packages in the mode approved, and store who requested others', async () => {
    upstream.offer('wanted/lib', ['1.0.0'])
    const { versions, call, account } = await aMirror({ mode: 'approved' })
    expect(await versions('wanted/lib')).toBe(404)
    expect(upstream.requests.filter((request) => request.includes('wanted/lib'))).toEqual([])
    expect((await call('GET', '/mirrored-packages')).json()).toMatchObject([
      { name: 'wanted/lib', requester: account.username, approved_at: null },
    ])
    await call('POST', '/mirrored-packages/approve', { packages: ['wanted/lib'] })
    expect(await versions('wanted/lib')).toEqual(['1.0.0'])
  })

  it('hide versions that the upstream flags as malware', async () => {
    upstream.offer('mal/ware', ['1.1.0', '1.0.0'], {
      document: {
        filter: { malware: [{ constraint: '1.1.0', reason: 'steals', id: 'x', url: 'https://x.example' }] },
      },
    })
    const { ask } = await aMirror()
    const response = await ask('p2/mal/ware.json')
    expect(expand(response.body, 'mal/ware')).toMatchObject([{ version: '1.0.0' }])
    expect(response.json().filter.malware).toHaveLength(1)
  })
})

describe('the minimum age', () => {
  const hoursAgo = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString()
  const published = (version: string, hours: number) => ({ version, 'published-time': hoursAgo(hours) })

  it('counts from the upstream’s published-time, and never from the author’s time', async () => {
    upstream.offer('age/one', [
      published('1.2.0', 1),
      { ...published('1.1.0', 1), time: '2001-01-01T00:00:00+00:00' },
      published('1.0.0', 100),
    ])
    const { versions } = await aMirror({ minimum_age_hours: 72 })
    expect(await versions('age/one')).toEqual(['1.0.0'])
  })

  it('counts from the first time that svc saw the version if the upstream has no time', async () => {
    upstream.offer('age/two', [{ version: '1.0.0', 'published-time': undefined }])
    const { versions } = await aMirror({ minimum_age_hours: 72 })
    expect(await versions('age/two')).toEqual([])
    await ageFirstSights(t.db, 73)
    await ageDueDocuments(t.db)
    expect(await versions('age/two')).toEqual(['1.0.0'])
  })

  it('counts from the first time that svc saw a version without an archive, too', async () => {
    const metapackage = (version: string) => ({
      version,
      type: 'metapackage',
      dist: null,
      'published-time': undefined,
    })
    const name = 'age/meta'
    upstream.offer(name, [metapackage('1.0.0')])
    const { versions, call } = await aMirror()
    expect(await versions(name)).toEqual(['1.0.0'])
    const later = async (hours: number) => {
      await ageMetapackages(t.db, name, hours)
      await ageDueDocuments(t.db, { name, hours })
    }
    const seen = () => countMetapackages(t.db, name)
    await later(71)
    await call('PATCH', '/upstreams/public', { minimum_age_hours: 72 })
    expect(await versions(name)).toEqual([])
    upstream.offer(name, [metapackage('1.1.0'), metapackage('1.0.0')])
    await age(name)
    await versions(name)
    await eventually(seen, (count) => count === 2)
    const documents = await mirroredDocuments(t.db, /^age\/meta$/)
    expect(documents.map(({ dueHours }) => Math.round(dueHours ?? 0))).toEqual([1])
    await later(2)
    expect(await versions(name)).toEqual(['1.0.0'])
    await later(70)
    expect(await versions(name)).toEqual(['1.1.0', '1.0.0'])

    // The versions of another upstream would be other ones.
    await call('DELETE', '/upstreams/public?release=true')
    expect(await seen()).toBe(0)
  })

  it('notes when the next version will be old enough', async () => {
    upstream.offer('age/three', [published('1.1.0', 71), published('1.0.0', 100)])
    const { ask } = await aMirror({ minimum_age_hours: 72 })
    const first = await ask('p2/age/three.json')
    expect(expand(first.body, 'age/three')).toMatchObject([{ version: '1.0.0' }])
    const [document] = await mirroredDocuments(t.db, /^age\/three$/)
    expect(document?.dueHours).toBeCloseTo(1, 1)
  })

  it('lets the oldest fix of a vulnerable version pass, no newer one, and no vulnerable one', async () => {
    upstream.offer(
      'age/fix',
      [
        published('2.0.4', 1),
        published('2.0.3', 2),
        published('2.0.2', 500),
        published('1.2.6', 1),
        published('1.2.5', 2),
        published('1.2.4', 3),
        published('1.2.3', 500),
      ],
      { document: { 'security-advisories': [{ advisoryId: 'A', affectedVersions: '<1.2.5|>=2.0,<2.0.3' }] } },
    )
    const { versions } = await aMirror({ minimum_age_hours: 72 })
    expect(await versions('age/fix')).toEqual(['2.0.3', '2.0.2', '1.2.5', '1.2.3'])
  })

  it('does not apply to a version that an admin has allowed, until its archive is another one', async () => {
    const held = ['1.2.0', '1.1.0'].map((version) => published(version, 1))
    upstream.offer('age/early', [...held, published('1.0.0', 100)])
    const { call, ask, versions, account } = await aMirror({ minimum_age_hours: 72 })
    expect((await ask('p2/age/early.json')).json()).toMatchObject({
      info: expect.stringMatching(/^These versions of age\/early are held back until .*: 1\.2\.0, 1\.1\.0\./),
    })
    const [listed] = (await call('GET', '/mirrored-packages')).json()
    expect(listed.held_back).toMatchObject([{ version: '1.2.0' }, { version: '1.1.0' }])
    expect(Date.parse(listed.held_back[0].until)).toBeCloseTo(Date.parse(hoursAgo(1)) + 72 * 3_600_000, -6)

    const allow = (body: object) =>
      call('POST', '/mirrored-packages/allow', { package: 'age/early', ...body })
    const refusals = [await allow({ version: '9.9.9' }), await allow({ package: 'un/known' })]
    expect(refusals.map(({ statusCode }) => statusCode)).toEqual([400, 404])
    expect((await allow({ version: '1.1.0' })).json()).toEqual({ allowed: ['1.1.0'] })
    expect(await versions('age/early')).toEqual(['1.1.0', '1.0.0'])
    expect((await allow({})).json()).toEqual({ allowed: ['1.2.0'] })
    expect(await versions('age/early')).toEqual(['1.2.0', '1.1.0', '1.0.0'])
    expect((await allow({})).json()).toMatchObject({
      errmsg: 'no version of age/early is held back by the minimum age',
    })
    const events = await eventsOf(t.db, { action: 'allow-versions' }, ['actorId', 'version', 'details'])
    expect(events).toMatchObject([
      {
        actorId: account.id,
        version: '1.1.0',
        details: { upstream: 'public', versions: ['1.1.0'], count: 1 },
      },
      { actorId: account.id, version: null, details: { versions: ['1.2.0'], count: 1 } },
    ])

    const dist = { type: 'zip', url: `${upstream.url}/other.zip`, reference: 'ab'.repeat(20), shasum: '' }
    upstream.offer('age/early', [{ ...published('1.2.0', 1), dist }, published('1.0.0', 100)])
    await age('age/early')
    await eventually(
      () => versions('age/early'),
      (offered) => String(offered) === '1.0.0',
    )
  })

  it('does not apply to exempt packages', async () => {
    upstream.offer('age/own', [published('1.0.0', 1)])
    const { versions } = await aMirror({ minimum_age_hours: 72, exempt: ['age/*:^1'] })
    expect(await versions('age/own')).toEqual(['1.0.0'])
  })
})

describe('an upstream without metadata-url', () => {
  const entry = (name: string, version: string) => ({
    name,
    version,
    dist: { type: 'zip', url: `${upstream.url}/x.zip`, reference: 'abcdef123' },
  })

  it('is read from inline packages, releases and development versions separately', async () => {
    upstream.put('/inline/packages.json', {
      packages: {
        'in/line': { '1.0.0': entry('in/line', '1.0.0'), 'dev-main': entry('in/line', 'dev-main') },
      },
    })
    const { versions } = await aMirror({ url: `${upstream.url}/inline` })
    expect(await versions('in/line')).toEqual(['1.0.0'])
    expect(await versions('in/line', '~dev')).toEqual(['dev-main'])
    expect(await versions('in/other')).toBe(404)
  })

  it('is read from includes', async () => {
    upstream.put('/satis/include/all$abc.json', {
      packages: { 'in/cluded': { '2.0.0': entry('in/cluded', '2.0.0') } },
    })
    upstream.put('/satis/packages.json', {
      packages: [],
      includes: { 'include/all$abc.json': { sha1: 'abc' } },
    })
    const { versions } = await aMirror({ url: `${upstream.url}/satis` })
    expect(await versions('in/cluded')).toEqual(['2.0.0'])
  })

  it('has at most 1000 includes', async () => {
    const includes = Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`inc${i}.json`, {}]))
    upstream.put('/long/packages.json', { packages: [], includes })
    const caller = await aCaller(t)
    const refused = await caller.call('POST', '/upstreams', { url: `${upstream.url}/long` })
    expect([refused.statusCode, refused.json().errmsg]).toEqual([
      400,
      expect.stringContaining('more than 1000 includes'),
    ])
    expect(upstream.requests.filter((request) => request.includes('/long/inc'))).toEqual([])
  })

  it('is 503 and not 404 while an include is a JSON error with status 200', async () => {
    upstream.put('/broken/include/all.json', { packages: { 'in/broken': [entry('in/broken', '2.0.0')] } })
    upstream.put('/broken/packages.json', { packages: [], includes: { 'include/all.json': {} } })
    const { versions } = await aMirror({ url: `${upstream.url}/broken` })
    const good = upstream.read('/broken/include/all.json') as Buffer
    upstream.put('/broken/include/all.json', { error: 'overloaded' })
    expect(await versions('in/broken')).toBe(503)
    upstream.put('/broken/include/all.json', good)
    await age('in/broken')
    expect(await versions('in/broken')).toEqual(['2.0.0'])
  })
})

describe('an upstream with metadata-url and inline packages', () => {
  const inline = (name: string, ...versions: string[]) =>
    versions.map((version) => ({
      name,
      version,
      dist: { type: 'zip', url: `${upstream.url}/x.zip`, reference: 'abcdef123' },
    }))
  const aPartialRoot = (path: string, packages: object, more: object = {}) =>
    upstream.put(`${path}/packages.json`, { packages, 'metadata-url': '/p2/%package%.json', ...more })

  it('uses the inline packages for their names, like Composer, and metadata-url for all others', async () => {
    upstream.offer('part/both', ['9.0.0'])
    upstream.offer('part/both', ['dev-other'], { isDev: true })
    upstream.offer('part/p2', ['3.0.0'])
    upstream.offer('part/empty', ['4.0.0'])
    aPartialRoot(
      '/partial',
      {
        'part/both': inline('part/both', '1.0.0', 'dev-main'),
        'part/only': inline('part/only', '2.0.0'),
        'part/empty': [],
      },
      { 'available-packages': ['part/p2', 'part/empty'] },
    )
    const { versions } = await aMirror({ url: `${upstream.url}/partial` })
    expect(await versions('part/only')).toEqual(['2.0.0'])
    expect(await versions('part/only', '~dev')).toEqual([])
    expect(await versions('part/both')).toEqual(['1.0.0'])
    expect(await versions('part/both', '~dev')).toEqual(['dev-main'])
    expect(await versions('part/p2')).toEqual(['3.0.0'])
    expect(await versions('part/empty')).toEqual(['4.0.0'])
    expect(await versions('part/none')).toBe(404)
    expect(askedFor('part/both')).toEqual([])
  })

  it('uses metadata-url when a package is no longer inline', async () => {
    upstream.offer('part/moved', ['2.0.0'])
    aPartialRoot('/moving', { 'part/moved': inline('part/moved', '1.0.0') })
    const { versions } = await aMirror({ url: `${upstream.url}/moving` })
    expect(await versions('part/moved')).toEqual(['1.0.0'])
    aPartialRoot('/moving', {})
    await ageRoots(t.db, 1)
    await age('part/moved')
    await eventually(
      () => versions('part/moved'),
      (found) => found.toString() === '2.0.0',
    )
  })

  it('reads packages.json again when an earlier release has read it', async () => {
    aPartialRoot('/earlier', { 'part/early': inline('part/early', '1.0.0') })
    const { versions, repository } = await aMirror({ url: `${upstream.url}/earlier` })
    await forgetRootKey(t.db, repository, 'inlineNames')
    expect(await versions('part/early')).toEqual(['1.0.0'])
  })
})

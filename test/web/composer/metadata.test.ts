import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { openDatabase } from '../../../src/database/database.ts'
import { noteServerUrls } from '../../../src/database/installation.ts'
import { rerenderDocuments } from '../../../src/packages/documents/rerender.ts'
import { useApp } from '../../support/app.ts'
import { lastUseOf, revokePersonalTokens } from '../../support/last-use-rows.ts'
import { openTransaction } from '../../support/locks.ts'
import { addPackages, lockPackage } from '../../support/package-rows.ts'
import { aPublisher, basic, expand } from '../../support/registry-actors.ts'
import { outdateDocuments, setRootFormat } from '../../support/stored-documents.ts'
import { listPersonalTokenIds } from '../../support/token-rows.ts'

const t = useApp()

describe('GET packages.json', () => {
  it('contains what Composer understands, with absolute URLs (COMPOSER A2)', async () => {
    const { push, ask, path } = await aPublisher(t)
    await push('1.0.0', { name: 'beta/b' })
    await push('1.0.0', { name: 'acme/a' })
    const response = await ask('packages.json')
    const registry = `http://svc.test${path}`
    expect(response.headers['content-type']).toBe('application/json')
    expect(response.json()).toEqual({
      packages: [],
      'metadata-url': `${registry}p2/%package%.json`,
      'available-packages': ['acme/a', 'beta/b'],
      'notify-batch': `${registry}downloads`,
      search: `${registry}search.json?q=%query%&type=%type%`,
      list: `${registry}list.json`,
      'providers-api': `${registry}providers/%package%.json`,
      'metadata-changes-url': `${registry}metadata/changes.json`,
      'security-advisories': { metadata: true, 'api-url': `${registry}security-advisories` },
      filter: {
        metadata: true,
        lists: { malware: { enabled: true } },
        'summary-url': `${registry}filter.json`,
      },
      warning: expect.stringContaining('Composer 1'),
      'warning-versions': '<2.0',
    })
  })

  it('has a Last-Modified while the repository is empty, and a later one with its first package', async () => {
    const { push, ask } = await aPublisher(t)
    const empty = await ask('packages.json')
    const since = { 'if-modified-since': String(empty.headers['last-modified']) }
    expect((await ask('packages.json', { headers: since })).statusCode).toBe(304)
    await push('1.0.0')
    const filled = await ask('packages.json', { headers: since })
    expect([filled.statusCode, filled.json()['available-packages']]).toEqual([200, ['acme/lib']])
    const dates = [empty, filled].map(({ headers }) => Date.parse(String(headers['last-modified'])))
    expect(dates[1]).toBeGreaterThan(dates[0] as number)
  })

  it('has a pattern that matches no package while the registry is empty, so that Composer requests none', async () => {
    const { ask } = await aPublisher(t)
    const root = (await ask('packages.json')).json()
    expect(root['available-packages']).toBeUndefined()
    expect(root['available-package-patterns']).toEqual(['-/-'])
  })

  it('is untouched by a new version of a known package', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const before = await ask('packages.json')
    await push('1.1.0')
    const since = { 'if-modified-since': before.headers['last-modified'] as string }
    expect((await ask('packages.json', { headers: since })).statusCode).toBe(304)
  })

  it('names vendors instead above ten thousand packages', async () => {
    const { push, ask, repository } = await aPublisher(t)
    const names = Array.from({ length: 10_000 }, (_, i) => `v${i % 3}/p${i}`)
    await addPackages(t.db, repository, names)
    await push('1.0.0')
    const root = (await ask('packages.json')).json()
    expect(root['available-packages']).toBeUndefined()
    expect(root['available-package-patterns']).toEqual(['acme/*', 'v0/*', 'v1/*', 'v2/*'])
  })
})

describe('GET p2/<vendor>/<package>.json', () => {
  it('lists the versions, the newest first, each with what composer.json says (COMPOSER A3, A4)', async () => {
    const { push, ask } = await aPublisher(t)
    const { url, shasum, sha256 } = (await push('1.0.0', { manifest: { require: { php: '>=8.1' } } })).json()
    await push('1.2.0', { manifest: { description: 'new' } })
    await push('1.10.0', { manifest: { description: 'new' } })
    const response = await ask('p2/acme/lib.json')
    expect(response.json().minified).toBe('composer/2.0')
    const entries = expand(response.body)
    expect(entries.map(({ version }) => version)).toEqual(['1.10.0', '1.2.0', '1.0.0'])
    expect(entries[2]).toEqual({
      name: 'acme/lib',
      version: '1.0.0',
      version_normalized: '1.0.0.0',
      require: { php: '>=8.1' },
      autoload: { 'psr-4': { 'Acme\\': 'src/' } },
      dist: { type: 'zip', url, reference: sha256, shasum },
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/),
      'published-time': expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$/),
    })
    expect(Object.keys(response.json().packages['acme/lib'][1])).not.toContain('description')
  })

  it('gives every version the same entry, in whatever order they are published', async () => {
    const versions = ['1.0.0', '1.1.0-beta.1', '1.1.0', '2.0.0', '10.0.0', '1.1.0-rc.1', '0.0.1', '2.0.0-p1']
    const manifests = versions.map((version, i) => ({
      ...(i % 2 === 0 && { description: `number ${i % 4}` }),
      ...(i % 3 === 0 && { require: { php: `^8.${i}` } }),
      ...(i % 5 === 0 && { keywords: [version] }),
    }))
    const read = async (order: number[]) => {
      const { push, ask } = await aPublisher(t)
      for (const i of order) await push(versions[i] as string, { manifest: { ...manifests[i] } })
      const entries = expand((await ask('p2/acme/lib.json')).body)
      const ofTheTime = ['dist', 'time', 'published-time']
      return entries.map((entry) =>
        Object.fromEntries(Object.entries(entry).filter(([key]) => !ofTheTime.includes(key))),
      )
    }
    const ascending = await read([0, 1, 2, 3, 4, 5, 6, 7])
    expect(ascending.map(({ version }) => version)).toEqual([
      '10.0.0',
      '2.0.0-p1',
      '2.0.0',
      '1.1.0',
      '1.1.0-rc.1',
      '1.1.0-beta.1',
      '1.0.0',
      '0.0.1',
    ])
    expect(await read([7, 2, 5, 0, 3, 6, 1, 4])).toEqual(ascending)
  })

  it('puts versions that Composer cannot parse into ~dev, as branches that break no client (COMPOSER A6)', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.1.0-foo')
    await push('1.0.0')
    await push('1.2.0-dev')
    expect(expand((await ask('p2/acme/lib.json')).body)).toMatchObject([{ version: '1.0.0' }])
    expect(expand((await ask('p2/acme/lib~dev.json')).body)).toMatchObject([
      { version: '1.2.0-dev' },
      { version: 'dev-1.1.0-foo', version_normalized: 'dev-1.1.0-foo' },
    ])
  })

  it('returns a document for a claimed name even without versions', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    expect((await ask('p2/acme/lib~dev.json')).json().packages).toEqual({ 'acme/lib': [] })
  })

  it.each([
    'p2/acme/none.json',
    'p2/acme/none~dev.json',
    'p2/acme/lib.xml',
    'p2/acme/lib~x.json',
    'p2/acme/.json',
  ])('returns errcode 5 for %s', async (path) => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const response = await ask(path)
    expect([response.statusCode, response.headers['content-type']]).toEqual([404, 'application/json'])
    expect(response.json()).toEqual({ errcode: 5, errmsg: 'package not found' })
  })

  it('is available in brotli, gzip and uncompressed', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const plain = await ask('p2/acme/lib.json')
    expect(plain.headers['content-encoding']).toBeUndefined()
    const read = (encoding: string) => ask('p2/acme/lib.json', { headers: { 'accept-encoding': encoding } })
    for (let round = 0; round < 2; round++) {
      const br = await read('deflate, gzip, br, zstd')
      expect(br.headers['content-encoding']).toBe('br')
      expect(brotliDecompressSync(br.rawPayload).toString()).toBe(plain.body)
      const gzip = await read('gzip, br;q=0')
      expect(gzip.headers['content-encoding']).toBe('gzip')
      expect(gunzipSync(gzip.rawPayload).toString()).toBe(plain.body)
    }
    expect(plain.headers['vary']).toBe('Authorization, Accept-Encoding')
    expect(plain.headers['cache-control']).toBe('private, no-cache')
  })

  it('responds with 304 without a body to exactly the Last-Modified that it sent', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const { headers } = await ask('p2/acme/lib.json')
    const since = (date: string) => ask('p2/acme/lib.json', { headers: { 'if-modified-since': date } })
    const same = await since(headers['last-modified'] as string)
    expect([same.statusCode, same.body]).toEqual([304, ''])
    expect((await since('Wed, 21 Oct 2099 07:28:00 GMT')).statusCode).toBe(200)
  })

  it('changes Last-Modified with every publish, also within one second (COMPOSER G4)', async () => {
    const { push, ask } = await aPublisher(t)
    const dates: number[] = []
    for (const version of ['1.0.0', '1.0.1', '1.0.2', '1.0.3']) {
      await push(version)
      const response = await ask('p2/acme/lib.json')
      expect(response.body).toContain(`"${version}"`)
      dates.push(Date.parse(response.headers['last-modified'] as string))
    }
    expect(dates).toEqual(dates.toSorted((a, b) => a - b))
    expect(new Set(dates).size).toBe(4)
  })

  it('checks access before it responds with 304', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const { headers } = await ask('p2/acme/lib.json')
    const stranger = await aPublisher(t)
    const since = { 'if-modified-since': headers['last-modified'] as string }
    for (const [authorization, status] of [
      [undefined, 401],
      [basic('wrong'), 401],
      [stranger.authorization, 404],
    ] as const) {
      const response = await ask('p2/acme/lib.json', { headers: { ...since, authorization } })
      expect(response.statusCode).toBe(status)
    }
  })

  it('is refused from the moment the token is revoked', async () => {
    const { push, ask, account } = await aPublisher(t)
    await push('1.0.0')
    expect((await ask('p2/acme/lib.json')).statusCode).toBe(200)
    await revokePersonalTokens(t.db, account)
    const response = await ask('p2/acme/lib.json')
    expect([response.statusCode, response.json().errcode]).toEqual([401, 16])
    expect(response.json().warning).toContain('revoked')
  })

  it('responds to HEAD without a body', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const plain = await ask('p2/acme/lib.json')
    const head = await ask('p2/acme/lib.json', { method: 'HEAD' })
    expect([head.statusCode, head.body]).toEqual([200, ''])
    expect(head.headers['last-modified']).toBe(plain.headers['last-modified'])
  })
})

describe('who may pull (CONTRACT 7.2)', () => {
  it('lets anyone pull from a public repository, but not with bad credentials', async () => {
    const { push, ask } = await aPublisher(t, { visibility: 'public' })
    const { url } = (await push('1.0.0')).json()
    const dist = new URL(url).pathname.split('/-/packages/')[1] as string
    for (const path of ['packages.json', 'p2/acme/lib.json', dist]) {
      expect((await ask(path, { headers: { authorization: undefined } })).statusCode).toBe(200)
      expect((await ask(path, { headers: { authorization: basic('wrong') } })).statusCode).toBe(401)
    }
  })

  it('requires credentials for private and for unknown repositories alike', async () => {
    const { ask, path } = await aPublisher(t)
    const hidden = await ask('packages.json', { headers: { authorization: undefined } })
    const nowhere = await t.app.inject('/nogroup/norepo/-/packages/packages.json')
    expect(hidden.statusCode).toBe(401)
    expect(nowhere.statusCode).toBe(401)
    expect(nowhere.body).toBe(hidden.body)
    const challenges = [hidden.headers['www-authenticate']].flat().join('\n')
    expect([nowhere.headers['www-authenticate']].flat().join('\n')).toBe(
      challenges.replace(path, '/nogroup/norepo/-/packages/'),
    )
  })

  it('responds in the same way for a repository that a token may not see and for a missing one', async () => {
    const publisher = await aPublisher(t)
    const others = await aPublisher(t)
    const hidden = await others.ask('packages.json', { headers: { authorization: publisher.authorization } })
    const headers = { authorization: publisher.authorization }
    const nowhere = await t.app.inject({ url: '/nogroup/norepo/-/packages/packages.json', headers })
    expect([hidden.statusCode, hidden.json().errcode]).toEqual([404, 5])
    expect(nowhere.body).toBe(hidden.body)
  })

  it.each([
    ['the username in capitals', (token: string) => basic(token, 'SVC')],
    ['a bearer token', (token: string) => `Bearer ${token}`],
    ['a scheme in small letters', (token: string) => `basic ${basic(token).slice(6)}`],
  ])('takes %s', async (_, authorizationOf) => {
    const { ask, token } = await aPublisher(t)
    expect(
      (await ask('packages.json', { headers: { authorization: authorizationOf(token) } })).statusCode,
    ).toBe(200)
  })

  it('notes the use of a token', async () => {
    const { ask, account } = await aPublisher(t)
    await ask('packages.json')
    const [id = ''] = await listPersonalTokenIds(t.db, account)
    await expect.poll(() => lastUseOf(t.db, 'personal_token', id)).not.toBeNull()
  })
})

describe('rerenderDocuments', () => {
  it('renders everything again when BASE_URL has changed, and nothing when it has not', async () => {
    const { push, ask, path } = await aPublisher(t)
    const about = {
      homepage: 'http://svc.test/acme',
      extra: { links: [`http://svc.test${path}dist/acme/lib/`] },
    }
    for (const version of ['1.0.0', '1.1.0', '1.1.0-foo']) await push(version, { manifest: about })
    const [before, root] = [await ask('p2/acme/lib.json'), await ask('packages.json')]
    // A server with the new URL has started, and this process is still running.
    await noteServerUrls(t.db, { baseUrl: 'https://new.test', authUrl: 'https://new.test' })
    expect((await rerenderDocuments(t.db, 'https://new.test')).packages).toBeGreaterThan(0)
    const after = await ask('p2/acme/lib.json')
    // Only the links of the registry change. All values of the package stay.
    const [old, now] = [before, after].map(({ body }) => expand(body))
    expect(now).toEqual(
      old?.map((entry) => {
        const dist = entry['dist'] as { url: string }
        return { ...entry, dist: { ...dist, url: dist.url.replace('http://svc.test', 'https://new.test') } }
      }),
    )
    expect(after.headers['last-modified']).not.toBe(before.headers['last-modified'])
    expect((await ask('packages.json')).json()['metadata-url']).toBe(
      `https://new.test${path}p2/%package%.json`,
    )
    expect((await ask('p2/acme/lib~dev.json')).body).toContain('https://new.test')
    expect(await rerenderDocuments(t.db, 'https://new.test')).toEqual({ packages: 0, repositories: 0 })
    await push('1.2.0')
    await rerenderDocuments(t.db, 'http://svc.test')
    expect((await ask('packages.json')).body).toBe(root.body)
    expect((await ask('p2/acme/lib.json')).body).not.toContain('https://new.test')
  })

  it('never sends a link of the former BASE_URL, also before everything is rendered again', async () => {
    const { push, ask, path } = await aPublisher(t)
    for (const version of ['1.0.0', '1.1.0', '1.1.0-foo']) await push(version)
    const files = ['packages.json', 'p2/acme/lib.json', 'p2/acme/lib~dev.json']
    const read = () => Promise.all(files.map(async (file) => (await ask(file)).body))
    const before = await read()
    await noteServerUrls(t.db, { baseUrl: 'https://moved.test', authUrl: 'https://moved.test' })
    await rerenderDocuments(t.db, 'https://moved.test')
    const moved = before.map((body) => body.replaceAll(`http://svc.test${path}`, `https://moved.test${path}`))
    expect(await read()).toEqual(moved)
    expect(moved.every((body) => body.includes('https://moved.test'))).toBe(true)
    await noteServerUrls(t.db, t.config)
    expect(await read()).toEqual(before)
  })

  it('renders documents of an older format again, and does not change those of a later one', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    const [root, p2] = [await ask('packages.json'), await ask('p2/acme/lib.json')]
    await outdateDocuments(t.db)
    expect((await ask('packages.json')).body).toBe('{}')
    await rerenderDocuments(t.db, 'http://svc.test')
    expect((await ask('packages.json')).body).toBe(root.body)
    expect((await ask('p2/acme/lib.json')).body).toBe(p2.body)
    await setRootFormat(t.db, 99)
    expect(await rerenderDocuments(t.db, 'http://svc.test')).toEqual({ packages: 0, repositories: 0 })
  })

  it('renders the other packages when one fails, and says so at the end', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    await push('1.0.0', { name: 'acme/next' })
    await noteServerUrls(t.db, { baseUrl: 'https://held.test', authUrl: 'https://held.test' })
    // The connections of the tests wait for a lock longer than a transaction of svc may hold it without a statement.
    const impatient = openDatabase({ ...t.connection, lock_timeout: 1000 }, () => {})
    const holder = await openTransaction(t.db)
    await lockPackage(holder.tx, 'acme/lib')
    await expect(rerenderDocuments(impatient, 'https://held.test')).rejects.toThrow(/could not be rendered$/)
    await holder.rollback()
    await impatient.end()
    expect((await ask('p2/acme/next.json')).body).toContain('https://held.test')
    expect((await ask('p2/acme/lib.json')).body).not.toContain('https://held.test')
    await rerenderDocuments(t.db, 'http://svc.test')
  })

  it('stops between two documents when its signal is aborted', async () => {
    const { push } = await aPublisher(t)
    await push('1.0.0')
    const rendered = await rerenderDocuments(t.db, 'https://late.test', AbortSignal.abort())
    expect(rendered).toEqual({ packages: 0, repositories: 0 })
  })
})

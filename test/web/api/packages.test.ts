import { describe, expect, it } from 'vitest'
import { aDeployToken, aMember, anAccount, aPersonalToken, groupOf, signIn } from '../../support/actors.ts'
import { aCaller, everyScope } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { holdDay } from '../../support/download-rows.ts'
import { readmeRows } from '../../support/package-rows.ts'
import { aPackageZip, basic, expand } from '../../support/registry-actors.ts'
import { dropRows } from '../../support/rows.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp()
const lib = '/packages/acme/lib'

/** A caller whose package acme/lib has these versions. */
async function aPackage(...versions: string[]) {
  const caller = await aCaller(t)
  for (const version of versions) await caller.push(version)
  const offered = async (file = 'acme/lib.json') => {
    const response = await caller.ask(`p2/${file}`)
    return [response.statusCode, ...expand(response.body).map((entry) => entry['version'])]
  }
  const state = async (query = '') => {
    const response = await caller.call('GET', `${lib}${query}`)
    return response.statusCode === 200
      ? response.json().versions.map(({ version }: { version: string }) => version)
      : response.statusCode
  }
  return { ...caller, offered, state }
}

describe('GET …/packages', () => {
  it('lists packages by name and in parts, each with its newest version and its downloads', async () => {
    const { push, call, ask } = await aCaller(t)
    for (const name of ['acme/c', 'acme/a', 'acme/b']) {
      await push('1.0.0', { name, manifest: { description: `the ${name}` } })
    }
    await push('1.1.0', { name: 'acme/a', manifest: { description: 'newer', keywords: ['x'] } })
    const downloads = [{ name: 'acme/a', version: '1.1.0.0' }]
    await ask('downloads', { method: 'POST', payload: JSON.stringify({ downloads }) })
    const first = await call('GET', '/packages?limit=2')
    await expect.poll(async () => (await call('GET', '/packages?limit=1')).json()[0].downloads).toBe(1)
    expect(first.json()).toEqual([
      {
        name: 'acme/a',
        description: 'newer',
        type: 'library',
        keywords: ['x'],
        abandoned: false,
        replacement: null,
        latest_version: '1.1.0',
        version_count: 2,
        downloads: expect.any(Number),
        release: 'direct',
        only_trusted_publishers: false,
        created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
      },
      expect.objectContaining({ name: 'acme/b' }),
    ])
    const [, next = ''] = /^<http:\/\/svc\.test(.*)>; rel="next"$/.exec(String(first.headers.link)) ?? []
    expect(next).toContain('limit=2')
    const below = next.slice(next.indexOf('/packages'))
    const second = await call('GET', below)
    expect(second.json()).toMatchObject([{ name: 'acme/c' }])
    expect(second.headers.link).toBeUndefined()
  })

  it.each([
    'limit=0',
    'limit=101',
    'limit=x',
    'limit=',
    'cursor=%20',
    'cursor=',
    `cursor=${'a'.repeat(1001)}`,
  ])('refuses the query %s', async (query) => {
    const { call } = await aCaller(t)
    const response = await call('GET', `/packages?${query}`)
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
  })

  it('accepts a cursor that it never returned', async () => {
    const { call } = await aPackage('1.0.0')
    for (const cursor of ['AAAA', '____', 'YQ']) {
      expect((await call('GET', `/packages?cursor=${cursor}`)).statusCode).toBe(200)
      expect((await call('GET', `${lib}?cursor=${cursor}`)).statusCode).toBe(200)
      expect((await call('GET', `/events?cursor=${cursor}`)).statusCode).toBe(200)
    }
  })
})

describe('the latest version', () => {
  it.each([
    [['1.0.0', '2.0.0-beta.1', '3.0.0-dev', '4.0.0-foo'], '1.0.0'],
    [['1.0.0-p1', '1.0.0'], '1.0.0-p1'],
    [['1.0.0-alpha.1', '1.0.0-rc.1', '1.0.0-beta.9', '2.0.0-foo'], '1.0.0-rc.1'],
    [['1.0.0-dev', '2.0.0-dev', '3.0.0-foo'], '2.0.0-dev'],
  ])('of %j is %s: for the API, in searches and on pages', async (versions, latest) => {
    const { push, call, ask, repository } = await aCaller(t, { visibility: 'public' })
    for (const version of versions) await push(version, { manifest: { description: `This is ${version}.` } })
    const expected = { description: `This is ${latest}.`, latest_version: latest }
    expect((await call('GET', lib)).json()).toMatchObject(expected)
    expect((await call('GET', '/packages')).json()).toMatchObject([expected])
    const search = (await ask('search.json?q=lib')).json()
    expect(search.results).toMatchObject([{ description: expected.description }])
    const page = async (below: string) => (await t.app.inject(`/${repository.path}${below}`)).body
    expect(await page('')).toContain(`>${latest}<`)
    expect(await page('/packages/acme/lib')).toContain(expected.description)
  })
})

describe('the README of a version', () => {
  it.each([
    ['version', `${lib}/1.0.0?purge=true`],
    ['package', `${lib}?purge=true`],
  ])('is removed by the purge of its %s', async (_what, url) => {
    const { push, call, repository } = await aCaller(t)
    const manifest = JSON.stringify({ name: 'acme/lib' })
    await push('1.0.0', { payload: aZip({ 'composer.json': manifest, 'README.md': '# Secret' }) })
    const count = async () => (await readmeRows(t.db, repository)).length
    expect(await count()).toBe(1)
    expect((await call('DELETE', url)).statusCode).toBe(204)
    expect(await count()).toBe(0)
  })
})

describe('the description of a package', () => {
  const about = (description: string) => ({ manifest: { description, keywords: [description] } })
  it.each([
    ['version', `${lib}/1.0.0?purge=true`],
    ['package', `${lib}?purge=true`],
  ])('is removed by the purge of its only %s, and not by a deletion', async (_what, url) => {
    const { push, call } = await aCaller(t)
    await push('1.0.0', about('secret'))
    const described = async () => (await call('GET', `${lib}?deleted=true`)).json()
    await call('DELETE', `${lib}/1.0.0`)
    expect(await described()).toMatchObject({ description: 'secret', keywords: ['secret'] })
    expect((await call('DELETE', url)).statusCode).toBe(204)
    expect(await described()).toMatchObject({ description: '', keywords: [], type: 'library' })
  })

  it('is that of the newest version that is not purged, when all of them are deleted', async () => {
    const { push, call } = await aCaller(t)
    await push('1.0.0', about('first'))
    await push('2.0.0', about('secret'))
    await call('DELETE', lib)
    await call('DELETE', `${lib}/2.0.0?purge=true`)
    expect((await call('GET', `${lib}?deleted=true`)).json()).toMatchObject({
      description: 'first',
      keywords: ['first'],
    })
  })
})

describe('GET …/packages/<vendor>/<package>', () => {
  it('shows its versions with hash, size, uploader and downloads, the newest first', async () => {
    const { push, call, account, path } = await aCaller(t)
    await push('1.0.0')
    await push('9.0.0-foo')
    await push('1.1.0-foo')
    const { sha256, shasum, size } = (await push('1.10.0')).json()
    const response = await call('GET', lib)
    expect(response.statusCode).toBe(200)
    const { versions, ...about } = response.json()
    expect(about).toMatchObject({ name: 'acme/lib', latest_version: '1.10.0', version_count: 4 })
    expect(versions).toMatchObject([
      { version: '1.10.0', composer_version: '1.10.0' },
      { version: '1.0.0' },
      // Composer cannot compare these two. The later upload comes first.
      { version: '1.1.0-foo', composer_version: 'dev-1.1.0-foo' },
      { version: '9.0.0-foo' },
    ])
    expect(versions[0]).toEqual({
      version: '1.10.0',
      composer_version: '1.10.0',
      sha256,
      shasum,
      size,
      url: `http://svc.test${path}dist/acme/lib/1.10.0/${sha256}.zip`,
      uploader: account.username,
      deploy_token: null,
      published_by: { type: 'account', username: account.username },
      attestations: [],
      provenance_url: null,
      downloads: 0,
      published_at: expect.any(String),
      deleted_at: null,
      purged_at: null,
      quarantined_at: null,
      quarantine_reason: null,
    })
  })

  it('names a deploy token that published a version, and a deleted account as such', async () => {
    const { push, call, account, repository, path } = await aCaller(t)
    await push('1.0.0')
    const token = await aDeployToken(t.db, await groupOf(t.db, repository), { name: 'build server' })
    await t.app.inject({
      method: 'PUT',
      url: `${path}upload/acme/lib/1.1.0`,
      headers: { authorization: basic(token) },
      payload: aPackageZip('acme/lib'),
    })
    const admin = await anAccount(t.db)
    await aMember(t.db, admin, repository, 'admin')
    const authorization = `Bearer ${await aPersonalToken(t.db, admin, { scopes: everyScope })}`
    await dropRows(t.db, 'account', { id: account.id })
    expect((await call('GET', lib)).statusCode).toBe(401)
    const get = async (below: string) =>
      (
        await t.app.inject({
          url: `/api/repositories/${repository.path}${below}`,
          headers: { authorization },
        })
      ).json()
    expect((await get(lib)).versions).toMatchObject([
      {
        version: '1.1.0',
        uploader: null,
        deploy_token: 'build server',
        published_by: { type: 'token', name: 'build server' },
      },
      { version: '1.0.0', uploader: 'deleted account', deploy_token: null },
    ])
    const events = await get('/events')
    expect(events).toContainEqual(
      expect.objectContaining({
        action: 'publish',
        version: '1.1.0',
        account: null,
        token: { kind: 'deploy', id: expect.any(Number), name: 'build server' },
      }),
    )
    expect(events).toContainEqual(
      expect.objectContaining({ action: 'publish', version: '1.0.0', account: 'deleted account' }),
    )
    const cookie = await signIn(t.app, admin)
    const page = async (below: string) =>
      (await t.app.inject({ url: `/${repository.path}/packages/acme/lib${below}`, headers: { cookie } })).body
    expect(await page('')).toContain('by <span>deploy token build server</span>')
    const versions = await page('/-/versions')
    expect(versions).toContain('>deleted account</td>')
    expect(versions).toContain('>deploy token build server</td>')
    expect(await page('/-/activity')).toContain('deploy token build server')
    const feed = await t.app.inject({
      url: `/${repository.path}/packages/acme/lib/-/feed.atom`,
      headers: { authorization: basic(token) },
    })
    expect(feed.body).toContain('<name>deleted account</name>')
  })

  it('shows many versions in parts', async () => {
    const { call } = await aPackage('1.0.0', '1.1.0', '1.2.0', '1.3.0-foo')
    const seen: string[] = []
    let below = `${lib}?limit=1`
    for (let i = 0; i < 4; i += 1) {
      const response = await call('GET', below)
      seen.push(...response.json().versions.map(({ version }: { version: string }) => version))
      const [, next = ''] = /<http:\/\/svc\.test(.*)>/.exec(String(response.headers.link)) ?? []
      below = next.slice(next.indexOf('/packages'))
    }
    expect(seen).toEqual(['1.2.0', '1.1.0', '1.0.0', '1.3.0-foo'])
    expect(below).toBe('')
  })

  it('shows the installations of each day of one version', async () => {
    const { call, ask } = await aPackage('1.0.0')
    const day = await holdDay(t.db)
    const downloads = Array(3).fill({ name: 'acme/lib', version: '1.0.0.0' })
    await ask('downloads', { method: 'POST', payload: JSON.stringify({ downloads }) })
    await expect
      .poll(async () => (await call('GET', `${lib}/1.0.0`)).json().daily_downloads)
      .toEqual([{ day, count: 3 }])
    expect((await call('GET', `${lib}/1.0.0`)).json().downloads).toBe(3)
    expect((await call('GET', `${lib}/1.0.1`)).statusCode).toBe(404)
    expect((await call('GET', '/packages/acme/other')).statusCode).toBe(404)
  })
})

describe('DELETE …/packages/<vendor>/<package>/<version>', () => {
  it('removes the version from the metadata at once, and keeps its archive for lock files (CONTRACT 7.8)', async () => {
    const { push, call, ask, offered, path } = await aPackage('1.0.0', '1.2.0')
    const { url } = (await push('1.1.0')).json()
    expect((await call('DELETE', `${lib}/1.1.0`)).statusCode).toBe(204)
    expect(await offered()).toEqual([200, '1.2.0', '1.0.0'])
    const below = url.slice(`http://svc.test${path}`.length)
    expect((await ask(below)).statusCode).toBe(200)
    expect((await call('DELETE', `${lib}/1.1.0`)).statusCode).toBe(404)
    expect((await call('DELETE', `${lib}/9.0.0`)).statusCode).toBe(404)
  })

  it('does not change other entries, wherever the deleted one was', async () => {
    const versions = ['1.0.0', '1.1.0', '1.2.0', '1.3.0']
    for (const gone of versions) {
      const { call, push, ask } = await aCaller(t)
      for (const [i, version] of versions.entries()) {
        await push(version, { manifest: i % 2 ? { description: version } : { type: 'project' } })
      }
      const entries = async () => expand((await ask('p2/acme/lib.json')).body)
      const before = await entries()
      await call('DELETE', `${lib}/${gone}`)
      expect(await entries()).toEqual(before.filter(({ version }) => version !== gone))
      await call('POST', `${lib}/${gone}/restore`)
      expect(await entries()).toEqual(before)
    }
  })

  it('leaves an empty list, and the name claimed, when the last version goes (COMPOSER E3)', async () => {
    const { call, ask, offered, state } = await aPackage('1.0.0')
    await call('DELETE', `${lib}/1.0.0`)
    expect(await offered()).toEqual([200])
    expect((await ask('p2/acme/lib.json')).json().packages).toEqual({ 'acme/lib': [] })
    expect((await ask('packages.json')).json()['available-packages']).toEqual(['acme/lib'])
    expect((await ask('search.json?q=lib')).json().results).toEqual([])
    expect(await state()).toBe(404)
    expect(await state('?deleted=true')).toEqual(['1.0.0'])
    expect((await call('GET', '/packages')).json()).toEqual([])
  })

  it('keeps its number reserved, also for the same bytes', async () => {
    const { call, push } = await aPackage('1.0.0')
    await call('DELETE', `${lib}/1.0.0`)
    const again = await push('1.0.0')
    expect([again.statusCode, again.json().errcode]).toEqual([409, 6])
  })

  it('changes Last-Modified, so that no cache keeps the deleted version', async () => {
    const { call, ask } = await aPackage('1.0.0', '1.1.0')
    const before = String((await ask('p2/acme/lib.json')).headers['last-modified'])
    await call('DELETE', `${lib}/1.1.0`)
    const response = await ask('p2/acme/lib.json', { headers: { 'if-modified-since': before } })
    expect(response.statusCode).toBe(200)
  })

  it('describes the package as its newest remaining version does', async () => {
    const { call, push } = await aCaller(t)
    await push('1.0.0', { manifest: { description: 'old' } })
    await push('2.0.0', { manifest: { description: 'new' } })
    await call('DELETE', `${lib}/2.0.0`)
    expect((await call('GET', lib)).json()).toMatchObject({ description: 'old', latest_version: '1.0.0' })
  })
})

describe('changes that race', () => {
  it('let one of ten deletions win, and one of ten restores', async () => {
    const { call } = await aPackage('1.0.0', '1.1.0')
    const ten = (act: () => ReturnType<typeof call>) => Promise.all(Array.from({ length: 10 }, act))
    const statuses = (responses: { statusCode: number }[]) =>
      responses.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b)
    const deleted = await ten(() => call('DELETE', `${lib}/1.0.0`))
    expect(statuses(deleted)).toEqual([204, ...Array(9).fill(404)])
    const restored = await ten(() => call('POST', `${lib}/1.0.0/restore`))
    expect(statuses(restored)).toEqual([200, ...Array(9).fill(409)])
  })

  it('leave documents that match the versions', async () => {
    const numbers = Array.from({ length: 8 }, (_, i) => `1.${i}.0`)
    const { call, push, offered } = await aPackage(...numbers)
    await Promise.all([
      ...numbers.slice(0, 4).map((version) => call('DELETE', `${lib}/${version}`)),
      ...numbers.map((_, i) => push(`2.${i}.0`, { manifest: { type: `t${i}` } })),
      call('POST', `${lib}/1.5.0/quarantine`),
      call('PATCH', lib, { abandoned: true }),
    ])
    const expected = ['1.7.0', '1.6.0', '1.4.0']
    expect(await offered()).toEqual([200, ...numbers.map((_, i) => `2.${i}.0`).toReversed(), ...expected])
  })

  it('do not deadlock with the deletion of their repository', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { call } = await aPackage('1.0.0', '1.1.0')
      const [quarantined, deleted] = await Promise.all([
        call('POST', `${lib}/1.0.0/quarantine`),
        call('DELETE'),
      ])
      expect(deleted.statusCode).toBe(204)
      expect([200, 404]).toContain(quarantined.statusCode)
    }
  })
})

describe('POST …/<version>/restore', () => {
  it('brings a deleted version back as it was', async () => {
    const { call, offered, ask } = await aPackage('1.0.0', '1.1.0-foo')
    const before = (await ask('p2/acme/lib~dev.json')).json()
    await call('DELETE', `${lib}/1.1.0-foo`)
    expect(await offered('acme/lib~dev.json')).toEqual([200])
    const response = await call('POST', `${lib}/1.1.0-foo/restore`)
    expect(response.statusCode).toBe(200)
    expect(response.json()).toMatchObject({ version: '1.1.0-foo', deleted_at: null })
    expect((await ask('p2/acme/lib~dev.json')).json()).toEqual(before)
  })

  it('refuses one that is not deleted, or purged', async () => {
    const { call } = await aPackage('1.0.0')
    const refused = await call('POST', `${lib}/1.0.0/restore`)
    expect([refused.statusCode, refused.json().errcode]).toEqual([409, 9])
    await call('DELETE', `${lib}/1.0.0?purge=true`)
    const purged = await call('POST', `${lib}/1.0.0/restore`)
    expect([purged.statusCode, purged.json()]).toEqual([
      409,
      { errcode: 9, errmsg: 'version 1.0.0 is purged' },
    ])
    expect((await call('POST', `${lib}/2.0.0/restore`)).statusCode).toBe(404)
  })
})

describe('DELETE …/packages/<vendor>/<package>', () => {
  it('deletes every version, and a restore brings back exactly these', async () => {
    const { call, offered, state } = await aPackage('1.0.0', '1.1.0', '1.2.0', '1.3.0-foo')
    await call('DELETE', `${lib}/1.0.0`)
    expect((await call('DELETE', lib)).statusCode).toBe(204)
    expect([await offered(), await offered('acme/lib~dev.json')]).toEqual([[200], [200]])
    expect((await call('DELETE', lib)).statusCode).toBe(404)
    const response = await call('POST', `${lib}/restore`)
    expect([response.statusCode, response.json().version_count]).toEqual([200, 3])
    expect(await offered()).toEqual([200, '1.2.0', '1.1.0'])
    expect(await offered('acme/lib~dev.json')).toEqual([200, 'dev-1.3.0-foo'])
    expect(await state()).toEqual(['1.2.0', '1.1.0', '1.3.0-foo'])
    const again = await call('POST', `${lib}/restore`)
    expect([again.statusCode, again.json().errcode]).toEqual([409, 9])
  })

  it('lets a new version be published to the claimed name', async () => {
    const { call, push, offered } = await aPackage('1.0.0')
    await call('DELETE', lib)
    expect((await push('2.0.0')).statusCode).toBe(201)
    expect(await offered()).toEqual([200, '2.0.0'])
    await call('POST', `${lib}/restore`)
    expect(await offered()).toEqual([200, '2.0.0', '1.0.0'])
  })
})

describe('DELETE … with purge=true', () => {
  it('no longer serves the archive, and keeps the number reserved forever', async () => {
    const { push, call, ask, path, state, offered } = await aPackage('1.0.0')
    const { url } = (await push('1.1.0')).json()
    const below = url.slice(`http://svc.test${path}`.length)
    expect((await call('DELETE', `${lib}/1.1.0?purge=true`)).statusCode).toBe(204)
    expect((await ask(below)).statusCode).toBe(404)
    expect(await offered()).toEqual([200, '1.0.0'])
    expect((await push('1.1.0')).statusCode).toBe(409)
    expect(await state('?deleted=true')).toEqual(['1.1.0', '1.0.0'])
    expect((await call('GET', `${lib}/1.1.0`)).json().purged_at).not.toBeNull()
    expect((await call('DELETE', `${lib}/1.1.0?purge=true`)).statusCode).toBe(404)
  })

  it('purges a deleted version too, and a whole package', async () => {
    const { call, ask, push, path, offered } = await aPackage('1.0.0')
    const { url } = (await push('1.1.0-foo')).json()
    await call('DELETE', `${lib}/1.0.0`)
    expect((await call('DELETE', `${lib}/1.0.0?purge=true`)).statusCode).toBe(204)
    expect((await call('DELETE', `${lib}?purge=true`)).statusCode).toBe(204)
    expect((await ask(url.slice(`http://svc.test${path}`.length))).statusCode).toBe(404)
    expect(await offered()).toEqual([200])
    expect((await call('POST', `${lib}/restore`)).statusCode).toBe(409)
    expect((await call('DELETE', `${lib}?purge=true`)).statusCode).toBe(404)
  })

  it('refuses an invalid value of purge', async () => {
    const { call, offered } = await aPackage('1.0.0')
    expect((await call('DELETE', `${lib}/1.0.0?purge=yes`)).statusCode).toBe(400)
    expect(await offered()).toEqual([200, '1.0.0'])
  })
})

describe('PATCH …/packages/<vendor>/<package>', () => {
  it('says that a package is abandoned, in all its entries and in searches (COMPOSER A4)', async () => {
    const { call, ask } = await aPackage('1.0.0', '1.1.0', '1.2.0-foo')
    const abandoned = async () => [
      ...expand((await ask('p2/acme/lib.json')).body).map((entry) => entry['abandoned']),
      ...expand((await ask('p2/acme/lib~dev.json')).body).map((entry) => entry['abandoned']),
      (await ask('search.json?q=lib')).json().results[0].abandoned,
    ]
    const patch = (body: object) => call('PATCH', lib, body)
    expect((await patch({ abandoned: true })).json()).toMatchObject({ abandoned: true, replacement: null })
    expect(await abandoned()).toEqual(Array(4).fill(true))
    expect((await patch({ replacement: 'acme/new' })).json().replacement).toBe('acme/new')
    expect(await abandoned()).toEqual(Array(4).fill('acme/new'))
    expect((await patch({ abandoned: true })).json().replacement).toBe('acme/new')
    expect((await patch({ replacement: null })).json()).toMatchObject({ abandoned: true, replacement: null })
    expect((await patch({ abandoned: false })).json()).toMatchObject({ abandoned: false, replacement: null })
    expect(await abandoned()).toEqual(Array(4).fill(undefined))
    expect((await patch({ abandoned: true, replacement: 'acme/new' })).json().replacement).toBe('acme/new')
  })

  it('also applies to the next version', async () => {
    const { call, push, ask } = await aPackage('1.0.0')
    await call('PATCH', lib, { abandoned: true })
    await push('1.1.0')
    expect(expand((await ask('p2/acme/lib.json')).body)[0]).toMatchObject({
      version: '1.1.0',
      abandoned: true,
    })
  })

  it.each([
    { abandoned: 'yes' },
    { replacement: 'nothing' },
    { replacement: 'Acme/New' },
    { abandoned: false, replacement: 'acme/new' },
    { replacement: 'acme/lib' },
    { replacement: `acme/${'a'.repeat(200)}` },
    { replacement: 1 },
    [],
  ])('refuses %j', async (body) => {
    const { call } = await aPackage('1.0.0')
    const response = await call('PATCH', lib, body)
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
  })

  it('responds with 404 for a package that is not there', async () => {
    const { call } = await aCaller(t)
    expect((await call('PATCH', lib, { abandoned: true })).statusCode).toBe(404)
  })
})

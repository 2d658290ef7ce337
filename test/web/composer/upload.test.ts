import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { transaction } from '../../../src/database/database.ts'
import { purgeRepository } from '../../../src/groups/repositories.ts'
import { aCaller } from '../../support/api-actors.ts'
import { useApp } from '../../support/app.ts'
import { eventsOf } from '../../support/event-rows.ts'
import { countWaiting } from '../../support/locks.ts'
import { growMetadata } from '../../support/package-rows.ts'
import { aPackageZip, aPublisher, basic, expand } from '../../support/registry-actors.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp()

/** The body of SPEC 7, byte for byte, except for the help beside errcode and errmsg. */
const notAuthorized = /^\{"errcode":16,"errmsg":"not authorized"[,}]/

function statusesOf(responses: { statusCode: number }[]): number[] {
  return responses.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b)
}

describe('PUT upload/<vendor>/<package>/<version> (SPEC 4.4)', () => {
  it('publishes the archive, and returns the published version with the URL of its page', async () => {
    const { push, path, repository } = await aPublisher(t)
    const response = await push('1.0.0')
    expect(response.statusCode).toBe(201)
    expect(response.headers['content-type']).toBe('application/json')
    expect(response.json()).toEqual({
      errcode: 0,
      errmsg: 'ok',
      name: 'acme/lib',
      version: '1.0.0',
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      shasum: expect.stringMatching(/^[0-9a-f]{40}$/),
      size: aPackageZip('acme/lib').length,
      url: `http://svc.test${path}dist/acme/lib/1.0.0/${response.json().sha256}.zip`,
      page_url: `http://svc.test/${repository.path}/packages/acme/lib?version=1.0.0`,
    })
  })

  it('gets 409 when the repository is deleted while it runs', async () => {
    const { push, repository } = await aPublisher(t)
    let pushing: ReturnType<typeof push> | undefined
    await transaction(t.db, async (tx) => {
      expect(await purgeRepository(tx, repository.id)).toBe(true)
      pushing = push('1.0.0')
      // The request of a test is sent only when somebody waits for it.
      void pushing.then(() => {})
      await expect.poll(() => countWaiting(t.db, 'insert into package')).toBe(1)
    })
    const response = await pushing
    expect(response?.statusCode).toBe(409)
    expect(response?.json()).toEqual({
      errcode: 10,
      errmsg: 'something that belongs to it was deleted a moment ago',
    })
  })

  it('shows the version to the next request', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    expect((await ask('packages.json')).json()['available-packages']).toEqual(['acme/lib'])
    expect(expand((await ask('p2/acme/lib.json')).body)).toMatchObject([{ version: '1.0.0' }])
  })

  it.each([
    { way: 'POST', options: { method: 'POST' as const } },
    { way: 'no content type', options: {} },
    {
      way: 'the type of a form',
      options: { headers: { 'content-type': 'application/x-www-form-urlencoded' } },
    },
    { way: 'JSON', options: { headers: { 'content-type': 'application/json' } } },
    { way: 'a senseless type', options: { headers: { 'content-type': 'zip' } } },
  ])('takes the archive as the body by $way', async ({ options }) => {
    const { push } = await aPublisher(t)
    expect((await push('1.0.0', options)).statusCode).toBe(201)
  })

  it('takes the one archive from the field `package` of a form', async () => {
    const { push } = await aPublisher(t)
    const form = (...names: string[]) =>
      Buffer.concat([
        Buffer.from('--cut\r\nContent-Disposition: form-data; name="note"\r\n\r\nhello\r\n'),
        ...names.flatMap((name) => [
          Buffer.from(`--cut\r\nContent-Disposition: form-data; name="${name}"; filename="package.zip"\r\n`),
          Buffer.from('Content-Type: application/zip\r\n\r\n'),
          aPackageZip('acme/lib'),
          Buffer.from('\r\n'),
        ]),
        Buffer.from('--cut--\r\n'),
      ])
    const headers = { 'content-type': 'multipart/form-data; boundary=cut' }
    const other = await push('1.0.0', { headers, payload: form('archive') })
    expect([other.statusCode, other.json().errcode]).toEqual([400, 3])
    const cut = await push('1.0.0', { headers, payload: form('package').subarray(0, -20) })
    expect([cut.statusCode, cut.json().errcode]).toEqual([400, 3])
    const twice = await push('1.0.0', { headers, payload: form('package', 'package') })
    expect([twice.statusCode, twice.json().errcode]).toEqual([400, 3])
    const noBoundary = await push('1.0.0', { headers: { 'content-type': 'multipart/form-data; x=y' } })
    expect([noBoundary.statusCode, noBoundary.json().errcode]).toEqual([400, 3])
    expect((await push('1.0.0', { headers, payload: form('package') })).statusCode).toBe(201)
  })

  const source = {
    type: 'git',
    url: 'https://git.example.com/acme/lib.git',
    reference: '1f0c2b3a4d5e6f708192a3b4c5d6e7f8091a2b3c',
  }

  it('takes what the push plugins send: their path below the registry URL, and the source in a form', async () => {
    const { ask } = await aPublisher(t)
    const field = (name: string, value: string) =>
      Buffer.from(`--cut\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`)
    const form = (...fields: Buffer[]) =>
      Buffer.concat([
        Buffer.from('--cut\r\nContent-Disposition: form-data; name="package"; filename="push.zip"\r\n\r\n'),
        aPackageZip('acme/lib'),
        Buffer.from('\r\n'),
        ...fields,
        Buffer.from('--cut--\r\n'),
      ])
    const put = (version: string, ...fields: Buffer[]) =>
      ask(`packages/upload/acme/lib/${version}`, {
        method: 'PUT',
        headers: { 'content-type': 'multipart/form-data; boundary=cut' },
        payload: form(...fields),
      })
    const complete = [
      field('src-type', 'git'),
      field('src-url', source.url),
      field('src-ref', source.reference),
    ]
    expect((await put('1.0.0', ...complete)).statusCode).toBe(201)
    expect((await put('1.1.0')).statusCode).toBe(201)
    const partial = await put('1.2.0', field('src-type', 'git'))
    expect([partial.statusCode, partial.json().errcode]).toEqual([400, 3])
    const [newest, oldest] = expand((await ask('p2/acme/lib.json')).body, 'acme/lib')
    expect([newest, oldest]).toMatchObject([{ version: '1.1.0' }, { version: '1.0.0', source }])
    expect(newest).not.toHaveProperty('source')
  })

  it('takes the source of a raw archive from the query, and refuses what Composer cannot use', async () => {
    const { ask } = await aPublisher(t)
    const put = (version: string, { type, url, reference }: typeof source) =>
      ask(
        `upload/acme/lib/${version}?${new URLSearchParams({ 'source-type': type, 'source-url': url, 'source-reference': reference })}`,
        { method: 'PUT', payload: aPackageZip('acme/lib') },
      )
    expect((await put('1.0.0', source)).statusCode).toBe(201)
    expect((await put('1.1.0', { ...source, url: 'git@git.example.com:acme/lib.git' })).statusCode).toBe(201)
    const [newest, oldest] = expand((await ask('p2/acme/lib.json')).body, 'acme/lib')
    expect([newest?.['source'], oldest?.['source']]).toMatchObject([{ reference: source.reference }, source])
    for (const wrong of [
      { type: 'path' },
      { type: '' },
      { url: '--upload-pack=touch' },
      { url: '-oProxyCommand=x@host:a' },
      { url: '-o@host:a' },
      { url: 'ssh://-oProxyCommand=x/a' },
      { url: 'ssh://git@-oProxyCommand=x/a' },
      { url: 'https://me:secret@git.example.com/acme/lib.git' },
      { url: 'https://git.example.com/\u001b[31m' },
      { url: `https://git.example.com/${'a'.repeat(2048)}` },
      { reference: '--output=x' },
      { reference: 'a b' },
    ]) {
      const refused = await put('2.0.0', { ...source, ...wrong })
      expect([wrong, refused.statusCode, refused.json().errcode]).toEqual([wrong, 400, 3])
      expect(refused.json().errmsg).toContain(`source-${Object.keys(wrong)[0]} must`)
    }
  })

  it('accepts the URLs that curl makes: a file name at the end, and a plus in the version', async () => {
    const { ask } = await aPublisher(t)
    const put = (path: string) => ask(path, { method: 'PUT', payload: aPackageZip('acme/lib') })
    expect((await put('upload/acme/lib/1.0.0/package.zip')).statusCode).toBe(201)
    expect((await put('upload/acme/lib/1.1.0+a')).json().version).toBe('1.1.0+a')
    expect((await put('upload/acme/lib/1.2.0%2Bb')).json().version).toBe('1.2.0+b')
    expect((await put('upload/Acme/Lib/1.3.0')).json().name).toBe('acme/lib')
  })

  it.each([
    { who: 'nobody', authorization: undefined },
    { who: 'another username', authorization: basic('svcp_x', 'git') },
    { who: 'a password', authorization: basic('hunter2') },
    { who: 'an unknown token', authorization: basic(`svcp_${'0'.repeat(43)}2W2X3h`) },
    { who: 'an unreadable header', authorization: 'Basic ???' },
    { who: 'another scheme', authorization: 'Digest abc' },
  ])('returns errcode 16 with 401 to $who (SPEC 7)', async ({ authorization }) => {
    const { push } = await aPublisher(t, { visibility: 'public' })
    const response = await push('1.0.0', { headers: { authorization } })
    expect(response.statusCode).toBe(401)
    expect(response.body).toMatch(notAuthorized)
    expect(response.headers['content-type']).toBe('application/json')
    expect(response.headers['www-authenticate']?.[0]).toMatch(/^Basic realm=/)
  })

  it.each([
    { who: 'a guest', role: 'guest' as const, scopes: ['registry-package:rw'] },
    { who: 'a token that may only pull', role: 'admin' as const, scopes: ['registry-package:r'] },
  ])('returns errcode 16 with 403 to $who (SPEC 7)', async ({ role, scopes }) => {
    const { push } = await aPublisher(t, { role, scopes })
    const response = await push('1.0.0')
    expect(response.statusCode).toBe(403)
    expect(response.body).toMatch(notAuthorized)
    expect(response.headers['www-authenticate']).not.toContain('Basic')
  })

  it('refuses a token that may not see the repository as not authorized, and hides the repository (SPEC 7)', async () => {
    const publisher = await aPublisher(t)
    const others = await aPublisher(t)
    const { authorization } = publisher
    const response = await others.push('1.0.0', { headers: { authorization } })
    expect(response.statusCode).toBe(404)
    expect(response.body).toMatch(notAuthorized)
    const url = '/acme/nowhere/-/packages/upload/acme/lib/1.0.0'
    const nowhere = await t.app.inject({ method: 'PUT', url, headers: { authorization } })
    expect([nowhere.statusCode, nowhere.body]).toEqual([404, response.body])
  })

  it('refuses a very long version by the same rule as any other', async () => {
    const { push } = await aPublisher(t)
    const response = await push('a'.repeat(5000))
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
  })

  it.each(['v1.0.0', '1.0', '01.0.0', 'latest', '1.0.0-', '%201.0.0', '1.0.0%00'])(
    'refuses %s, which is no Semantic Version (SPEC 7, 9)',
    async (version) => {
      const { push } = await aPublisher(t)
      const response = await push(version)
      if (version.endsWith('%00')) return expect(response.statusCode).toBe(404)
      expect(response.statusCode).toBe(400)
      const errmsg = `validate [Version:${decodeURIComponent(version)}] failed`
      expect(response.body.startsWith(`{"errcode":3,"errmsg":"${errmsg}"`)).toBe(true)
    },
  )

  it('checks the credentials before the permission, and the permission before the version', async () => {
    const { push } = await aPublisher(t, { role: 'guest' })
    expect((await push('v1', { headers: { authorization: undefined } })).json().errcode).toBe(16)
    expect((await push('v1')).statusCode).toBe(403)
  })

  it.each([
    { what: 'no bytes', payload: '' },
    { what: 'something else', payload: 'hello' },
    { what: 'a zip without composer.json', payload: aZip({ 'a/b.php': '<?php', 'c.php': '<?php' }) },
    { what: 'another package', payload: aPackageZip('acme/other') },
    {
      what: 'a broken manifest',
      payload: aPackageZip('acme/lib', { require: { 'a/b': 'not a version!!' } }),
    },
  ])('refuses $what with errcode 3, and keeps nothing of it', async ({ payload }) => {
    const { push, ask } = await aPublisher(t)
    const response = await push('1.0.0', { payload })
    expect([response.statusCode, response.json().errcode]).toEqual([400, 3])
    expect((await ask('p2/acme/lib.json')).statusCode).toBe(404)
    expect(await readdir(join(t.config.dataDir, 'tmp'))).toEqual([])
  })

  it('responds with 200 to the same bytes again, and errcode 6 to other bytes', async () => {
    const { push, ask } = await aPublisher(t)
    const first = await push('1.0.0')
    const again = await push('1.0.0')
    expect(again.statusCode).toBe(200)
    expect(again.json()).toEqual(first.json())
    const other = await push('1.0.0', { manifest: { description: 'other' } })
    expect([other.statusCode, other.json().errcode]).toEqual([409, 6])
    expect(expand((await ask('p2/acme/lib.json')).body)).toHaveLength(1)
  })

  it('refuses a version that is equal for Composer to a published one (COMPOSER A6)', async () => {
    const { push } = await aPublisher(t)
    expect((await push('1.1.0+a')).statusCode).toBe(201)
    const other = await push('1.1.0+b')
    expect([other.statusCode, other.json().errcode]).toEqual([409, 6])
    expect(other.json().errmsg).toContain('1.1.0+a')
  })

  it('lets one of ten racing uploads with different bytes win', async () => {
    const { push, ask } = await aPublisher(t)
    const responses = await Promise.all(
      Array.from({ length: 10 }, (_, i) => push('1.0.0', { manifest: { description: `number ${i}` } })),
    )
    expect(statusesOf(responses)).toEqual([201, ...Array(9).fill(409)])
    const won = responses.find(({ statusCode }) => statusCode === 201)?.json()
    const [entry] = expand((await ask('p2/acme/lib.json')).body)
    expect(entry).toMatchObject({ dist: { url: won.url, shasum: won.shasum } })
  })

  it('responds with 200 to the nine losers of a race with the same bytes', async () => {
    const { push } = await aPublisher(t)
    const responses = await Promise.all(Array.from({ length: 10 }, () => push('1.0.0')))
    expect(statusesOf(responses)).toEqual([...Array(9).fill(200), 201])
  })

  it('shows all of many packages and versions that are published at once', async () => {
    const { push, ask } = await aPublisher(t)
    const names = ['acme/a', 'acme/b', 'acme/c']
    const versions = ['1.0.0', '1.1.0', '2.0.0-beta.1', '0.9.0']
    const pushes = names.flatMap((name) => versions.map((version) => push(version, { name })))
    expect((await Promise.all(pushes)).map(({ statusCode }) => statusCode)).toEqual(pushes.map(() => 201))
    expect((await ask('packages.json')).json()['available-packages']).toEqual(names)
    for (const name of names) {
      const entries = expand((await ask(`p2/${name}.json`)).body, name)
      expect(entries.map(({ version }) => version)).toEqual(['2.0.0-beta.1', '1.1.0', '1.0.0', '0.9.0'])
      expect(entries.every((entry) => entry['name'] === name)).toBe(true)
    }
  })

  it('notes who published what, with which token, when and from where', async () => {
    const { push, repository, account } = await aPublisher(t)
    const { sha256, size } = (await push('1.0.0')).json()
    const rows = await eventsOf(t.db, { repositoryId: repository.id }, [
      'package',
      'version',
      'action',
      'actorId',
      'tokenKind',
      'details',
      'ip',
    ])
    expect(rows).toEqual([
      {
        package: 'acme/lib',
        version: '1.0.0',
        action: 'publish',
        actorId: account.id,
        tokenKind: 'personal',
        details: { sha256, size },
        ip: '127.0.0.1',
      },
    ])
    for (const change of ['update event set version = null', 'delete from event']) {
      await expect(t.db.query(change)).rejects.toThrow('event is append-only')
    }
  })

  it('refuses a version that makes the document larger than 16 MiB, and says which key is large', async () => {
    const { push, call, ask, repository } = await aCaller(t)
    for (const version of ['1.0.0', '1.1.0']) await push(version)
    await growMetadata(t.db, repository, '1.0.0', 16 * 1024 * 1024)
    const refused = await push('1.2.0', { manifest: { extra: { large: 'y'.repeat(1000) } } })
    expect([refused.statusCode, refused.json()]).toEqual([
      413,
      {
        errcode: 8,
        errmsg: expect.stringMatching(
          /^the package's metadata would have 16\d{6} bytes, but at most 16777216 are allowed$/,
        ),
        warning: "The largest key of this version's composer.json is extra, with 1012 bytes.",
      },
    ])
    expect(expand((await ask('p2/acme/lib.json')).body).map(({ version }) => version)).toEqual([
      '1.1.0',
      '1.0.0',
    ])
    expect((await call('DELETE', '/packages/acme/lib/1.1.0')).statusCode).toBe(204)
  })
})

describe('every other URL and method below the registry', () => {
  it('responds in the registry’s error format', async () => {
    const { ask, path } = await aPublisher(t)
    for (const below of ['nothing', 'upload', 'upload/acme/lib', 'p2', 'dist/a/b']) {
      const response = await ask(below)
      expect([below, response.statusCode, response.json()]).toEqual([
        below,
        404,
        { errcode: 5, errmsg: 'not found' },
      ])
    }
    const undecodable = await ask('upload/acme/lib/%zz', { method: 'PUT' })
    expect([undecodable.statusCode, undecodable.json().errcode]).toEqual([400, 3])
    const wrong = await ask('packages.json', { method: 'DELETE' })
    expect([wrong.statusCode, wrong.json().errcode, wrong.headers['allow']]).toEqual([405, 12, 'GET, HEAD'])
    const read = await ask('upload/acme/lib/1.0.0')
    expect([read.statusCode, read.headers['allow']]).toEqual([405, 'POST, PUT'])
    const page = await ask('')
    expect([page.statusCode, page.headers.location]).toEqual([302, path.replace('/-/packages/', '')])
    const registry = await t.app.inject({ url: path.slice(0, -1) })
    expect([registry.statusCode, registry.headers.location]).toEqual([308, path])
  })
})

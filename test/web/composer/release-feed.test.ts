import { describe, expect, it } from 'vitest'
import { transaction } from '../../../src/database/database.ts'
import { renameRepository } from '../../../src/groups/repositories.ts'
import { useApp } from '../../support/app.ts'
import { copyVersion, markDeleted, markQuarantined } from '../../support/package-rows.ts'
import { aPublisher } from '../../support/registry-actors.ts'

describe('GET /<group>/<name>/-/feed.atom', () => {
  const t = useApp()
  const titles = (body: string) =>
    [...body.matchAll(/<title>([^<]*)<\/title>/g)].map(([, title]) => title).slice(1)

  it('lists the latest releases of a private repository, only to clients with a token', async () => {
    const { repository, push, authorization } = await aPublisher(t)
    await push('1.0.0', { name: 'acme/one', manifest: { description: 'Counts <things> & "more"' } })
    await push('1.1.0', { name: 'acme/one' })
    await push('2.0.0', { name: 'acme/two' })
    const url = `/${repository.path}/-/feed.atom`
    const feed = await t.app.inject({ url, headers: { authorization } })
    expect(feed.headers['content-type']).toBe('application/atom+xml')
    expect(titles(feed.body)).toEqual(['acme/two 2.0.0', 'acme/one 1.1.0', 'acme/one 1.0.0'])
    expect(feed.body).toContain(`href="http://svc.test/${repository.path}/packages/acme/one?version=1.0.0"`)

    const anonymous = await t.app.inject(url)
    expect([anonymous.statusCode, anonymous.headers['www-authenticate']]).toEqual([
      401,
      [expect.stringContaining('Basic'), expect.stringContaining('Bearer')],
    ])
    const other = await aPublisher(t)
    const hidden = await t.app.inject({ url, headers: { authorization: other.authorization } })
    expect(hidden.statusCode).toBe(404)
  })

  it('returns 304 until something is published', async () => {
    const { repository, push } = await aPublisher(t, { visibility: 'public' })
    const url = `/${repository.path}/-/feed.atom`
    const empty = await t.app.inject(url)
    expect([empty.statusCode, titles(empty.body)]).toEqual([200, []])
    await push('1.0.0')
    const first = await t.app.inject(url)
    const headers = { 'if-none-match': `"x", W/${String(first.headers.etag)}` }
    const same = await t.app.inject({ url, headers })
    expect([same.statusCode, same.body]).toEqual([304, ''])
    await push('1.1.0')
    expect((await t.app.inject({ url, headers })).statusCode).toBe(200)
  })

  it('leaves deleted and quarantined versions out, and keeps its ids when the repository is renamed', async () => {
    const { repository, push } = await aPublisher(t, { visibility: 'public' })
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) await push(version)
    await markDeleted(t.db, repository, { version: '1.1.0' })
    await markQuarantined(t.db, repository, 'x', { version: '1.2.0' })
    const { body } = await t.app.inject(`/${repository.path}/-/feed.atom`)
    expect(titles(body)).toEqual(['acme/lib 1.0.0'])
    const ids = (xml: string) => [...xml.matchAll(/<id>([^<]+)</g)].map(([, id]) => id)
    await transaction(t.db, (tx) => renameRepository(tx, repository.id, 'moved'))
    const moved = await t.app.inject(`/${repository.path.split('/')[0]}/moved/-/feed.atom`)
    expect(ids(moved.body)).toEqual(ids(body))
    expect(ids(body)).toHaveLength(2)
  })

  it('exists for each package, with at most 50 releases', async () => {
    const { repository, push } = await aPublisher(t, { visibility: 'public' })
    await push('1.0.0')
    await push('1.0.0', { name: 'acme/other' })
    const versions = Array.from({ length: 60 }, (_, i) => `2.${i + 1}.0`)
    await copyVersion(t.db, repository, { name: 'acme/lib' }, versions)
    const url = (name: string) => `/${repository.path}/packages/${name}/-/feed.atom`
    expect(titles((await t.app.inject(url('acme/lib'))).body)).toHaveLength(50)
    expect(titles((await t.app.inject(url('acme/other'))).body)).toEqual(['acme/other 1.0.0'])
    expect((await t.app.inject(url('acme/none'))).statusCode).toBe(404)
    expect((await t.app.inject({ method: 'POST', url: url('acme/lib') })).statusCode).toBe(405)
  })

  it('is linked from the pages of the repository and the package', async () => {
    const { repository, push } = await aPublisher(t, { visibility: 'public' })
    await push('1.0.0')
    for (const page of [`/${repository.path}`, `/${repository.path}/packages/acme/lib`]) {
      const { body, headers } = await t.app.inject(page)
      const href =
        /<link rel="alternate" type="application\/atom\+xml" title="Releases" href="([^"]+)">/.exec(body)?.[1]
      expect(headers.link).toBe(`<${href}>; rel="alternate"; type="application/atom+xml"`)
      expect((await t.app.inject(String(href))).statusCode).toBe(200)
    }
  })
})

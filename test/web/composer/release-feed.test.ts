import { describe, expect, it } from 'vitest'
import { useApp } from '../../support/app.ts'
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
      expect.stringContaining('Basic'),
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
    await t.db.query(
      `update package_version v set deleted_at = case version when '1.1.0' then now() end,
              quarantined_at = case version when '1.2.0' then now() end, quarantine_reason = case version when '1.2.0' then 'x' end
         from package p where p.id = v.package_id and p.repository_id = $1 and version <> '1.0.0'`,
      [repository.id],
    )
    const { body } = await t.app.inject(`/${repository.path}/-/feed.atom`)
    expect(titles(body)).toEqual(['acme/lib 1.0.0'])
    const ids = (xml: string) => [...xml.matchAll(/<id>([^<]+)</g)].map(([, id]) => id)
    await t.db.query(`update repository set name = 'moved' where id = $1`, [repository.id])
    const moved = await t.app.inject(`/${repository.path.split('/')[0]}/moved/-/feed.atom`)
    expect(ids(moved.body)).toEqual(ids(body))
    expect(ids(body)).toHaveLength(2)
  })

  it('exists for each package, with at most 50 releases', async () => {
    const { repository, push } = await aPublisher(t, { visibility: 'public' })
    await push('1.0.0')
    await push('1.0.0', { name: 'acme/other' })
    await t.db.query(
      `insert into package_version (package_id, version, composer, normalized, is_dev, sort_key, metadata, sha256)
       select v.package_id, '2.' || i || '.0', '2.' || i || '.0', '2.' || i || '.0.0', false, v.sort_key, '{}', v.sha256
         from package_version v join package p on p.id = v.package_id, generate_series(1, 60) i
        where p.repository_id = $1 and p.name = 'acme/lib'`,
      [repository.id],
    )
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

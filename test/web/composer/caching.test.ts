import { randomBytes } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { useApp } from '../../support/app.ts'
import { aPublisher } from '../../support/registry-actors.ts'
import {
  documentState,
  drawRevisions,
  forgetContentTags,
  setDocumentState,
} from '../../support/stored-documents.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp()
const documents = ['packages.json', 'filter.json', 'p2/acme/lib.json']

async function aRegistry(visibility: 'public' | 'private') {
  const publisher = await aPublisher(t, { visibility })
  const { url } = (await publisher.push('1.0.0')).json() as { url: string }
  return { ...publisher, dist: url.slice(url.indexOf('dist/')) }
}

describe('Cache-Control', () => {
  it('lets every cache store public responses for a minute', async () => {
    const { ask, dist } = await aRegistry('public')
    for (const path of documents) {
      expect((await ask(path)).headers).toMatchObject({
        'cache-control': 'public, max-age=0, s-maxage=60',
        vary: 'Accept-Encoding',
      })
    }
    const { headers } = await ask(dist)
    expect(headers['cache-control']).toBe('public, max-age=31536000, s-maxage=60, immutable')
    expect(headers['vary']).toBeUndefined()
  })

  it('lets no shared cache store private responses, or responses for missing names', async () => {
    const { ask, dist } = await aRegistry('private')
    for (const path of [...documents, dist]) {
      const { headers } = await ask(path)
      expect([path, headers['cache-control']]).toEqual([path, expect.stringMatching(/^private, /)])
      expect(headers['vary']).toContain('Authorization')
    }
    const open = await aRegistry('public')
    const free = await open.ask('p2/acme/none.json')
    expect([free.statusCode, free.headers['cache-control']]).toEqual([404, 'private, no-cache'])
  })

  it.each(['search.json', 'list.json', 'providers/acme/lib.json', 'metadata/changes.json'])(
    'lets no shared cache store %s, not even of a public registry',
    async (path) => {
      const { ask } = await aRegistry('public')
      expect((await ask(path)).headers['cache-control']).toBe('private, no-cache')
    },
  )
})

describe('ETag', () => {
  it.each(documents)(
    'of %s is weak, changes with the body, and has precedence over the date',
    async (path) => {
      const { ask, push } = await aRegistry('private')
      const { headers } = await ask(path)
      const etag = String(headers['etag'])
      expect(etag).toMatch(/^W\/"[\w-]{22,32}"$/)
      const condition = (tags: string, more = {}) =>
        ask(path, { headers: { 'if-none-match': tags, ...more } })
      for (const tags of [etag, `"other", ${etag}`, etag.slice(2), '*']) {
        const response = await condition(tags)
        expect([response.statusCode, response.body, response.headers['etag']]).toEqual([304, '', etag])
      }
      const since = { 'if-modified-since': String(headers['last-modified']) }
      expect((await condition('"other"', since)).statusCode).toBe(200)
      for (const encoding of ['gzip', 'br']) {
        expect((await ask(path, { headers: { 'accept-encoding': encoding } })).headers['etag']).toBe(etag)
      }
      if (!path.startsWith('p2')) return
      await push('1.1.0')
      const changed = await condition(etag)
      expect([changed.statusCode, changed.headers['etag'] === etag]).toEqual([200, false])
    },
  )
})

describe('a database whose revisions come again, after a restore or lost commits', () => {
  /** Gives a document the revision of another one, as a sequence that went back does. */
  const repeatRevision = async (repository: { id: string }, of: { id: string }) =>
    setDocumentState(t.db, repository, await documentState(t.db, of))

  it('serves no document of another package from memory', async () => {
    const [hidden, open] = [await aRegistry('private'), await aRegistry('public')]
    expect((await hidden.ask('p2/acme/lib.json')).body).toContain(hidden.path)
    await repeatRevision(open.repository, hidden.repository)
    const { body } = await open.ask('p2/acme/lib.json')
    expect(body).toContain(open.path)
    expect(body).not.toContain(hidden.path)
  })

  it('serves no former content of the same package from memory, and sends no 304 for it', async () => {
    const { ask, push, repository } = await aRegistry('private')
    const before = await ask('p2/acme/lib.json')
    const earlier = await documentState(t.db, repository)
    await push('1.1.0')
    await setDocumentState(t.db, repository, earlier)
    const after = await ask('p2/acme/lib.json', {
      headers: { 'if-none-match': String(before.headers['etag']) },
    })
    expect(after.statusCode).toBe(200)
    expect(after.body).toContain('1.1.0')
  })

  it('has no entity tag while a document has the tag of a former revision, or none', async () => {
    const { ask, repository } = await aRegistry('private')
    const tag = String((await ask('p2/acme/lib.json')).headers['etag'])
    for (const change of [drawRevisions, forgetContentTags]) {
      await change(t.db, repository)
      for (const condition of [tag, `${tag},`, 'W/""', '']) {
        const response = await ask('p2/acme/lib.json', { headers: { 'if-none-match': condition } })
        expect([change.name, response.statusCode, response.headers['etag']]).toEqual([
          change.name,
          200,
          undefined,
        ])
      }
      const { statusCode } = await ask('p2/acme/lib.json', { headers: { 'if-none-match': '*' } })
      expect(statusCode).toBe(304)
    }
  })
})

describe('archives in memory', () => {
  it('are read once, whatever their size up to 4 MiB', async () => {
    const zip = aZip({ 'composer.json': '{"name":"acme/large"}', 'noise.bin': randomBytes(3_000_000) })
    const { ask, push } = await aPublisher(t)
    const { url, sha256 } = (await push('1.0.0', { name: 'acme/large', payload: zip })).json()
    const dist = url.slice(url.indexOf('dist/'))
    const first = await Promise.all(Array.from({ length: 8 }, () => ask(dist)))
    for (const { rawPayload } of first) expect(rawPayload.equals(zip)).toBe(true)
    await rm(join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`))
    const part = await ask(dist, { headers: { range: 'bytes=1000000-1999999' } })
    expect(part.rawPayload.equals(zip.subarray(1_000_000, 2_000_000))).toBe(true)
  })
})

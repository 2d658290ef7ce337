import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { describe, expect, it } from 'vitest'
import { saveFetchedArchives } from '../../src/upstreams/tables/mirrored-archives.ts'
import { aCaller } from '../support/api-actors.ts'
import { useApp } from '../support/app.ts'
import { flagVersions, forgetFetch } from '../support/mirrored-rows.ts'
import { aPackageZip, expand } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'

const t = useApp({ ...upstreamsHere, BASE_URL: 'http://svc.test' })
const first = useUpstream()
const other = useUpstream()

const sha1 = (bytes: Buffer) => createHash('sha1').update(bytes).digest('hex')

/** A package whose two archives svc has fetched from the first upstream, which then releases the name. */
async function aReleasedPackage(name: string, { deny = [] as string[], flags = true } = {}) {
  const bytes = aPackageZip(name, { description: 'of the first upstream' })
  for (const version of ['1.0.0', '1.1.0']) first.put(`/archives/${name}/${version}.zip`, bytes)
  first.offer(name, ['1.1.0', '1.0.0'])
  const caller = await aCaller(t)
  const { call, ask, path } = caller
  expect((await call('POST', '/upstreams', { url: first.url, name: 'first' })).statusCode).toBe(201)
  const entries = async () => expand((await ask(`p2/${name}.json`)).body, name)
  const paths = new Map(
    (await entries()).map(({ version, dist }) => {
      const { url } = dist as { url: string }
      return [String(version), url.slice(`http://svc.test${path}`.length)]
    }),
  )
  const dist = (version: string) => ask(paths.get(version) ?? '')
  for (const version of ['1.0.0', '1.1.0']) expect((await dist(version)).statusCode).toBe(200)
  if (flags) await flagVersions(t.db, name, '1.1.0')
  await call('PATCH', '/upstreams/first', { deny })
  const reference = /([0-9a-f]+)\.zip$/.exec(paths.get('1.0.0') ?? '')?.[1] ?? ''
  expect((await call('DELETE', '/upstreams/first?release=true')).statusCode).toBe(204)
  return { ...caller, name, bytes, entries, dist, reference }
}

describe('a stored archive of an upstream that released the name, when another upstream gets the name', () => {
  it('is served while the other one announces its shasum', async () => {
    const { call, name, bytes, entries, dist, reference } = await aReleasedPackage('rel/same')
    const shasum = sha1(bytes)
    other.offer(name, [{ version: '1.0.0', dist: aDist(name, reference, shasum) }])
    await call('POST', '/upstreams', { url: other.url, name: 'other' })
    expect((await entries())[0]).toMatchObject({ dist: { shasum } })
    expect((await dist('1.0.0')).rawPayload.equals(bytes)).toBe(true)
    expect(other.requests.filter((request) => request.includes(`${name}/1.0.0.zip`))).toEqual([])
  })

  it.each(['another shasum', 'no shasum'])(
    'is replaced by that of the other one, which announces %s',
    async (kind) => {
      const name = `rel/${kind.replace(' ', '-')}`
      const { call, entries, dist, reference } = await aReleasedPackage(name)
      const bytes = aPackageZip(name, { description: 'of the other upstream' })
      other.put(`/archives/${name}/1.0.0.zip`, bytes)
      const shasum = kind === 'no shasum' ? '' : sha1(bytes)
      other.offer(name, [{ version: '1.0.0', dist: aDist(name, reference, shasum) }])
      await call('POST', '/upstreams', { url: other.url, name: 'other' })
      await entries()
      expect((await dist('1.0.0')).rawPayload.equals(bytes)).toBe(true)
      expect((await dist('1.0.0')).rawPayload.equals(bytes)).toBe(true)
    },
  )

  it('is served when the other one names the same URL without a shasum', async () => {
    const { call, name, bytes, entries, dist, reference } = await aReleasedPackage('rel/url')
    const url = `${first.url}/archives/${name}/1.0.0.zip`
    other.offer(name, [{ version: '1.0.0', dist: { type: 'zip', url, reference, shasum: '' } }])
    await call('POST', '/upstreams', { url: other.url, name: 'other' })
    await entries()
    const before = first.requests.length
    expect((await dist('1.0.0')).rawPayload.equals(bytes)).toBe(true)
    expect(first.requests.length).toBe(before)
  })

  it('is not served when the former one flagged it as malware and the other one does not offer it', async () => {
    const { call, name, entries, dist, reference } = await aReleasedPackage('rel/flagged')
    other.offer(name, [{ version: '1.0.0', dist: aDist(name, reference, '') }])
    await call('POST', '/upstreams', { url: other.url, name: 'other' })
    expect((await entries()).map(({ version }) => version)).toEqual(['1.0.0'])
    expect((await dist('1.1.0')).statusCode).toBe(410)
  })

  it('is replaced even when it is still being fetched', async () => {
    const { call, name, entries, dist, reference } = await aReleasedPackage('rel/slow')
    const id = await forgetFetch(t.db, name, '1.0.0')
    const bytes = aPackageZip(name, { description: 'of the other upstream' })
    other.put(`/archives/${name}/1.0.0.zip`, bytes)
    other.offer(name, [{ version: '1.0.0', dist: aDist(name, reference, '') }])
    await call('POST', '/upstreams', { url: other.url, name: 'other' })
    await entries()
    const late = { id, sha256: 'ab'.repeat(32), sha1: 'ab'.repeat(20), size: 1 }
    expect(await saveFetchedArchives(t.db, [{ ...late, isDownload: true }])).toEqual([false])
    expect((await dist('1.0.0')).rawPayload.equals(bytes)).toBe(true)
  })

  it('is 503, and no alarm, for a request of the former one that is still waiting', async () => {
    const name = 'rel/waiting'
    const { call, ask, path } = await aCaller(t)
    await call('POST', '/upstreams', { url: first.url, name: 'first' })
    first.offer(name, ['1.0.0'])
    const [entry] = expand((await ask(`p2/${name}.json`)).body, name)
    const { url, reference } = { ...(entry?.['dist'] as object) } as { url: string; reference: string }
    const held = new Promise<ServerResponse>((resolve) => {
      first.fail(`/archives/${name}/1.0.0.zip`, (_, response) => resolve(response))
    })
    const waiting = ask(url.slice(`http://svc.test${path}`.length)).then((response) => response)
    const response = await held
    expect((await call('DELETE', '/upstreams/first?release=true')).statusCode).toBe(204)
    other.offer(name, [{ version: '1.0.0', dist: aDist(name, reference, '') }])
    await call('POST', '/upstreams', { url: other.url, name: 'other' })
    expect((await ask(`p2/${name}.json`)).statusCode).toBe(200)
    response.end(aPackageZip(name))
    expect((await waiting).json()).toMatchObject({ errcode: 14, warning: expect.stringContaining('removed') })
  })

  it.each(['as malware', 'by a rule'])(
    'stays refused %s, also after the other one released the name',
    async (how) => {
      const name = `rel/refused-${how.replaceAll(' ', '-')}`
      const deny = how === 'by a rule' ? [`${name}:1.1.0`] : []
      const { call, entries, dist, reference } = await aReleasedPackage(name, {
        deny,
        flags: deny.length === 0,
      })
      expect((await dist('1.1.0')).statusCode).toBe(410)
      other.offer(name, [{ version: '1.0.0', dist: aDist(name, reference, '') }])
      await call('POST', '/upstreams', { url: other.url, name: 'other' })
      await entries()
      expect((await dist('1.1.0')).statusCode).toBe(410)
      expect((await call('DELETE', '/upstreams/other?release=true')).statusCode).toBe(204)
      expect((await dist('1.1.0')).statusCode).toBe(410)
    },
  )

  it('is served when the other one has the URL of the former one', async () => {
    const { call, name, bytes, entries, dist } = await aReleasedPackage('rel/again')
    await call('POST', '/upstreams', { url: first.url, name: 'again' })
    expect(await entries()).toHaveLength(2)
    const archives = () => first.requests.filter((request) => request.includes(`${name}/1.`)).length
    const before = archives()
    expect((await dist('1.0.0')).rawPayload.equals(bytes)).toBe(true)
    expect(archives()).toBe(before)
  })
})

function aDist(name: string, reference: string, shasum: string) {
  return { type: 'zip', url: `${other.url}/archives/${name}/1.0.0.zip`, reference, shasum }
}

import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { basename } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, it } from 'vitest'
import { patienceMilliseconds } from '../../src/upstreams/archive-mirror.ts'
import { aCaller } from '../support/api-actors.ts'
import { useAnotherProcess, useApp } from '../support/app.ts'
import { announceShasum, flagVersions, forgetFiles, mirroredArchives } from '../support/mirrored-rows.ts'
import { aPackageZip, expand } from '../support/registry-actors.ts'
import { upstreamsHere, useUpstream } from '../support/upstream.ts'
import { ageDocuments, markStale } from '../support/upstream-rows.ts'
import { aZip, craftZip } from '../support/zip.ts'

const t = useApp({ ...upstreamsHere, BASE_URL: 'http://svc.test' })
const upstream = useUpstream()
const second = useAnotherProcess(t)
beforeAll(async () => {
  await t.app.listen({ port: 0, host: '127.0.0.1' })
})

/**
 * A repository with an upstream and a mirrored package. Returns the paths of the archive at the upstream and in svc.
 */
async function aMirroredPackage(name: string, keys: Record<string, unknown> = {}) {
  const caller = await aCaller(t)
  await caller.call('POST', '/upstreams', { url: upstream.url, name: 'public' })
  upstream.offer(name, [{ version: '1.0.0', ...keys }])
  const [entry] = expand((await caller.ask(`p2/${name}.json`)).body, name)
  const { url } = { ...(entry?.['dist'] as object) } as { url: string }
  const path = url.slice(`http://svc.test${caller.path}`.length)
  const source = `/archives/${name}/1.0.0.zip`
  const fetched = () => upstream.requests.filter((request) => request === `GET ${source}`).length
  return { ...caller, dist: () => caller.ask(path), distPath: path, source, fetched, name }
}

/** Bytes that do not compress, so that an archive has many chunks. */
function aLargeZip(bytes = 2_000_000): Buffer {
  let seed = Buffer.from('seed')
  const parts: Buffer[] = []
  for (let size = 0; size < bytes; size += 32) {
    seed = createHash('sha256').update(seed).digest()
    parts.push(seed)
  }
  return aZip({ 'composer.json': '{"name":"big/one"}', 'data.bin': Buffer.concat(parts) })
}

/** Sends a GET over a real socket. Returns the received bytes, and whether the response was complete. */
function getOverSocket(
  url: string,
  authorization: string,
): Promise<{ bytes: Buffer; isComplete: boolean; status: number }> {
  const { port } = t.app.server.address() as AddressInfo
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { port, host: '127.0.0.1', path: url, headers: { authorization } },
      (response) => {
        const chunks: Buffer[] = []
        const end = () =>
          resolve({
            bytes: Buffer.concat(chunks),
            isComplete: response.complete,
            status: response.statusCode ?? 0,
          })
        response.on('data', (chunk: Buffer) => chunks.push(chunk))
        response.on('end', end).on('error', end)
      },
    )
    request.on('error', reject).end()
  })
}

/** A tar archive with this file, made by tar itself. */
function aTar(): Buffer {
  const [folder, file] = [import.meta.dirname, basename(import.meta.filename)]
  return execFileSync('tar', ['--create', '--file=-', `--directory=${folder}`, file])
}

describe('an archive of an upstream', () => {
  it('is fetched once, then served like our own', async () => {
    const { dist, distPath, ask, fetched } = await aMirroredPackage('ar/one')
    const first = await dist()
    expect([first.statusCode, first.headers['content-type']]).toEqual([200, 'application/zip'])
    expect(first.rawPayload.equals(aPackageZip('ar/one'))).toBe(true)
    const again = await dist()
    expect(again.rawPayload.equals(first.rawPayload)).toBe(true)
    const sha256 = createHash('sha256').update(first.rawPayload).digest('hex')
    expect(again.headers['etag']).toBe(`"${sha256}"`)
    const part = await ask(distPath, { headers: { range: 'bytes=0-3' } })
    expect([part.statusCode, part.rawPayload.toString('latin1')]).toEqual([206, 'PK\u0003\u0004'])
    expect(fetched()).toBe(1)
  })

  it('is stored by no shared cache, not even in a public repository', async () => {
    const { dist, call } = await aMirroredPackage('cache/lib')
    expect((await call('PATCH', '', { visibility: 'public' })).statusCode).toBe(200)
    for (const which of ['first', 'stored']) {
      const { statusCode, headers } = await dist()
      expect([which, statusCode, headers['cache-control']]).toEqual([
        which,
        200,
        expect.stringMatching(/^private, /),
      ])
    }
  })

  it('is not fetched for a HEAD request', async () => {
    const { ask, dist, distPath, fetched } = await aMirroredPackage('ar/head')
    const head = await ask(distPath, { method: 'HEAD' })
    expect([head.statusCode, head.headers['content-type'], head.body]).toEqual([200, 'application/zip', ''])
    expect(fetched()).toBe(0)
    const { rawPayload } = await dist()
    const again = await ask(distPath, { method: 'HEAD' })
    expect(again.headers['content-length']).toBe(String(rawPayload.length))
    expect(fetched()).toBe(1)
  })

  it('is fetched once for many requests on many processes', async () => {
    const { authorization, path, distPath, fetched } = await aMirroredPackage('ar/flight')
    const get = (app: typeof t.app) => app.inject({ url: path + distPath, headers: { authorization } })
    const responses = await Promise.all(
      Array.from({ length: 16 }, (_, i) => get(i % 2 === 0 ? t.app : second.app)),
    )
    expect(responses.map(({ statusCode }) => statusCode)).toEqual(Array(16).fill(200))
    expect(new Set(responses.map(({ rawPayload }) => rawPayload.length)).size).toBe(1)
    expect(fetched()).toBe(1)
  })

  it('is streamed to the first client while svc fetches it, and is complete', async () => {
    const { path, distPath, authorization, source, dist } = await aMirroredPackage('ar/large')
    const zip = aLargeZip()
    let release = () => {}
    upstream.fail(source, (_, response) => {
      response.writeHead(200, { 'content-length': zip.length })
      response.write(zip.subarray(0, 1_000_000))
      release = () => response.end(zip.subarray(1_000_000))
    })
    const { port } = t.app.server.address() as AddressInfo
    const whole = await new Promise<Buffer>((resolve, reject) => {
      const chunks: Buffer[] = []
      httpRequest(
        { port, host: '127.0.0.1', path: path + distPath, headers: { authorization } },
        (response) => {
          expect(response.headers['content-length']).toBe(String(zip.length))
          response.once('data', () => release())
          response.on('data', (chunk: Buffer) => chunks.push(chunk))
          response.on('end', () => resolve(Buffer.concat(chunks))).on('error', reject)
        },
      ).end()
    })
    expect(whole.equals(zip)).toBe(true)
    expect((await dist()).rawPayload.equals(zip)).toBe(true)
  })

  it('is complete for a client that reads slowly, which delays no other client', async () => {
    const { path, distPath, authorization, source, dist, fetched } = await aMirroredPackage('ar/slow')
    // More than sockets and streams hold.
    const content = randomBytes(32_000_000)
    const zip = craftZip([
      { name: 'composer.json', content: '{"name":"ar/slow"}' },
      { name: 'data.bin', content, raw: content, method: 0 },
    ])
    upstream.fail(source, (_, response) => response.end(zip))
    const { port } = t.app.server.address() as AddressInfo
    const slow = await new Promise<IncomingMessage>((resolve, reject) => {
      const url = { port, host: '127.0.0.1', path: path + distPath, headers: { authorization } }
      httpRequest(url, resolve).on('error', reject).end()
    })
    const other = await dist()
    expect(other.rawPayload.equals(zip)).toBe(true)
    expect(slow.complete).toBe(false)
    expect((await buffer(slow)).equals(zip)).toBe(true)
    expect(fetched()).toBe(1)
  })

  it('reaches clients that wait longer than a connection without traffic stays open', async () => {
    const { path, distPath, authorization, source } = await aMirroredPackage('ar/patience')
    const sockets: Socket[] = []
    const note = ({ socket }: IncomingMessage) => sockets.push(socket)
    t.app.server.on('request', note)
    const held = new Promise<ServerResponse>((resolve) => {
      upstream.fail(source, (_, response) => resolve(response))
    })
    const get = () => getOverSocket(path + distPath, authorization)
    const responses = Promise.all([get(), get()])
    const upstreamResponse = await held
    // The server closes a connection after this time without traffic, and an upstream may take minutes.
    expect(t.app.server.timeout).toBe(60_000)
    await expect
      .poll(() => sockets.map(({ timeout }) => Number(timeout) > patienceMilliseconds))
      .toEqual([true, true])
    t.app.server.off('request', note)
    upstreamResponse.end(aPackageZip('ar/patience'))
    expect((await responses).map(({ status, isComplete }) => [status, isComplete])).toEqual([
      [200, true],
      [200, true],
    ])
  })

  it.each(['length', 'chunked'])(
    'that is cut off (%s) never ends normally, and is not stored',
    async (kind) => {
      const { path, distPath, authorization, source, dist } = await aMirroredPackage(`ar/cut-${kind}`)
      const zip = aLargeZip()
      upstream.fail(source, (_, response) => {
        response.writeHead(200, kind === 'length' ? { 'content-length': zip.length } : {})
        response.write(zip.subarray(0, 1_500_000))
        // For HTTP, a chunked response that ends normally is complete, even if the content is too short.
        if (kind === 'chunked') response.end()
        else setTimeout(() => response.destroy(), 50)
      })
      const cut = await getOverSocket(path + distPath, authorization).catch(() => ({
        isComplete: false,
        bytes: Buffer.of(),
      }))
      expect(cut.isComplete).toBe(false)
      expect(await mirroredArchives(t.db, `ar/cut-${kind}`)).toMatchObject([
        { sha256: null, isStored: false },
      ])
      upstream.fail(source, null)
      expect((await dist()).statusCode).toBe(200)
    },
  )

  it('is 503 when the upstream fails, and 404 when the upstream no longer has it', async () => {
    const { dist, source } = await aMirroredPackage('ar/fails')
    upstream.fail(source, 500)
    const failed = await dist()
    expect([failed.statusCode, failed.json().errcode, failed.headers['retry-after']]).toEqual([503, 14, '5'])
    upstream.fail(source, (_, response) => response.end('<html>Sign in</html>'))
    expect((await dist()).statusCode).toBe(503)
    upstream.fail(source, 404)
    expect((await dist()).statusCode).toBe(404)
    upstream.fail(source, null)
    expect((await dist()).statusCode).toBe(200)
  })

  it.each(['zip', 'tar', 'gzip', 'xz', 'rar'])(
    'is not served as %s when it is something else',
    async (type) => {
      // So large that the client would get its first part before the end.
      const secret = JSON.stringify({ secret: 'x'.repeat(3_000_000) })
      upstream.put(`/secret.${type}`, secret)
      const dist = { type, url: `${upstream.url}/secret.${type}`, reference: 'abcdef2' }
      const refused = await (await aMirroredPackage(`ar/secret-${type}`, { dist })).dist()
      expect([refused.statusCode, refused.json().errcode]).toEqual([503, 14])
      expect(refused.body).not.toContain('xxx')
      upstream.put(`/secret.${type}`, 'short')
      expect((await (await aMirroredPackage(`ar/short-${type}`, { dist })).dist()).statusCode).toBe(503)
    },
  )

  it.each([
    ['tar', aTar()],
    ['tar', gzipSync(aTar())],
    ['gzip', gzipSync('text')],
  ])('is served as %s when it is one', async (type, bytes) => {
    const path = `/real-${bytes.length}.${type}`
    upstream.put(path, bytes)
    const dist = { type, url: upstream.url + path, reference: 'abcdef3' }
    const served = await (await aMirroredPackage(`ar/real-${bytes.length}`, { dist })).dist()
    expect([served.statusCode, served.rawPayload]).toEqual([200, bytes])
  })

  it('is 503 when it is empty, whatever its type', async () => {
    for (const type of ['zip', 'tar']) {
      const url = `${upstream.url}/empty.${type}`
      upstream.put(`/empty.${type}`, '')
      const { dist } = await aMirroredPackage(`ar/empty-${type}`, {
        dist: { type, url, reference: 'abcdef1' },
      })
      const failed = await dist()
      expect([failed.statusCode, failed.json().errcode]).toEqual([503, 14])
    }
  })

  it('with another shasum causes an alarm and is not served', async () => {
    const { dist, call } = await aMirroredPackage('ar/shasum', {
      dist: {
        type: 'zip',
        url: `${upstream.url}/archives/ar/one/1.0.0.zip`,
        reference: 'abcdef12',
        shasum: 'a'.repeat(40),
      },
    })
    const refused = await dist()
    expect([refused.statusCode, refused.json()]).toMatchObject([
      502,
      { errcode: 15, warning: expect.stringContaining('SHA-1') },
    ])
    expect((await call('GET', '/events')).body).toContain('archive-alarm')
    const [mirror] = (await call('GET', '/mirrored-packages')).json()
    expect(mirror.alarm).toContain('SHA-1')
    const metrics = (await t.app.inject('/metrics')).body
    expect(metrics).toMatch(/svc_upstream_requests_total\{kind="archive",outcome="alarm"\} 1/)
    expect(metrics).toMatch(/svc_upstream_documents_total\{result="miss"\} \d/)
    expect(metrics).toMatch(/svc_upstream_archive_bytes_total \d{3}/)
  })

  it('with other bytes than at the first fetch causes an alarm and is not served', async () => {
    const { dist, source } = await aMirroredPackage('ar/changed')
    expect((await dist()).statusCode).toBe(200)
    await forgetFiles(t.db)
    upstream.put(source, aZip({ 'composer.json': '{"name":"evil/evil"}' }))
    const refused = await dist()
    expect([refused.statusCode, refused.json().warning]).toEqual([
      502,
      expect.stringContaining('first fetch'),
    ])
    upstream.put(source, aPackageZip('ar/changed'))
    expect((await dist()).statusCode).toBe(200)
  })

  it('keeps its shasum when the upstream announces another one later, with one alarm', async () => {
    const name = 'ar/announced'
    const sha1 = createHash('sha1').update(aPackageZip(name)).digest('hex')
    const dist = (shasum: string) => ({
      type: 'zip',
      url: `${upstream.url}/archives/${name}/1.0.0.zip`,
      reference: 'abcdef12',
      shasum,
    })
    const { ask, call, dist: download } = await aMirroredPackage(name, { dist: dist(sha1) })
    /** Lets the upstream announce a shasum. Returns the one that svc announces then. */
    let changes = 0
    const announce = async (shasum: string) => {
      changes += 1
      const description = `change ${changes}`
      upstream.offer(name, [{ version: '1.0.0', dist: dist(shasum), description }])
      await markStale(t.db, name)
      const entry = async () => expand((await ask(`p2/${name}.json`)).body, name)[0]
      await expect.poll(async () => (await entry())?.['description']).toBe(description)
      return ({ ...(await entry()) }['dist'] as { shasum: string }).shasum
    }
    const alarm = async () => (await call('GET', '/mirrored-packages')).json()[0].alarm
    const alarms = async () =>
      (await call('GET', '/events'))
        .json()
        .filter(({ action }: { action: string }) => action === 'archive-alarm')

    // Until the first fetch, the latest shasum counts.
    expect(await announce('b'.repeat(40))).toBe('b'.repeat(40))
    expect(await announce(sha1)).toBe(sha1)
    expect((await download()).statusCode).toBe(200)
    expect([await announce(sha1), await alarm()]).toEqual([sha1, null])

    expect(await announce('a'.repeat(40))).toBe(sha1)
    expect(await announce('a'.repeat(40))).toBe(sha1)
    expect(await announce('c'.repeat(40))).toBe(sha1)
    expect(await alarm()).toContain(`announces the SHA-1 ${'a'.repeat(40)}`)
    expect(await alarms()).toMatchObject([
      { package: name, version: '1.0.0', details: { upstream: 'public', url: dist('').url } },
    ])
    expect((await download()).rawPayload.equals(aPackageZip(name))).toBe(true)
    expect([await announce(sha1), await alarm()]).toEqual([sha1, null])

    // The first fetch was not checked against a shasum.
    await announceShasum(t.db, { reference: 'abcdef12' }, null)
    expect([await announce(sha1), await alarm()]).toEqual([sha1, null])
    expect(await announce('a'.repeat(40))).toBe('')
    expect(await alarms()).toHaveLength(2)
  })

  it('is 410 with a warning when it is denied, also for a lock file', async () => {
    const { dist, call } = await aMirroredPackage('ar/denied')
    expect((await dist()).statusCode).toBe(200)
    await call('PATCH', '/upstreams/public', { deny: ['ar/denied:1.0.0'] })
    const blocked = await dist()
    expect([blocked.statusCode, blocked.headers['content-type'], blocked.json().warning]).toEqual([
      410,
      'application/json',
      expect.stringContaining('cannot be installed'),
    ])
  })

  it('stays served to lock files below the minimum age, and after the upstream dropped or moved it', async () => {
    const { dist, ask, name, call } = await aMirroredPackage('ar/locked')
    await call('PATCH', '/upstreams/public', { minimum_age_hours: 87_600 })
    expect(expand((await ask(`p2/${name}.json`)).body, name)).toEqual([])
    expect((await dist()).statusCode).toBe(200)
    await call('DELETE', '/upstreams/public')
    expect((await dist()).statusCode).toBe(200)
  })

  it('stays served to lock files after its upstream released the name, unless svc knows that it is bad', async () => {
    const { dist, ask, call, path, name } = await aMirroredPackage('ar/released')
    upstream.offer(name, ['1.3.0', '1.2.0', '1.1.0', '1.0.0'])
    await ageDocuments(t.db)
    const entries = async () => expand((await ask(`p2/${name}.json`)).body, name)
    await expect.poll(entries).toHaveLength(4)
    const archives = (await entries()).map(({ version, dist }) => {
      const { url } = dist as { url: string }
      return [version, url.slice(`http://svc.test${path}`.length)] as const
    })
    const distPaths = new Map(archives)
    const get = async (version: string) => (await ask(distPaths.get(version) ?? '')).statusCode
    for (const version of ['1.0.0', '1.1.0', '1.2.0']) expect(await get(version)).toBe(200)
    await call('PATCH', '/upstreams/public', { deny: [`${name}:1.1.0`] })
    await flagVersions(t.db, name, '1.2.0')
    expect((await call('DELETE', '/upstreams/public?release=true')).statusCode).toBe(204)

    expect((await dist()).rawPayload.equals(aPackageZip(name))).toBe(true)
    expect((await ask(distPaths.get('1.0.0') ?? '', { method: 'HEAD' })).statusCode).toBe(200)
    expect([await get('1.1.0'), await get('1.2.0')]).toEqual([410, 410])
    // Another upstream may have another package of this name.
    const before = upstream.requests.length
    await call('POST', '/upstreams', { url: upstream.url, name: 'other' })
    expect(await get('1.3.0')).toBe(404)
    expect(upstream.requests.slice(before).filter((request) => request.includes('.zip'))).toEqual([])
  })

  it('is never fetched from a URL that no document contains', async () => {
    const { ask, name } = await aMirroredPackage('ar/row')
    for (const file of [
      '1.0.0/abcdef0.zip',
      '1.0.0/..%2f..%2fx.zip',
      '9.9.9/abcdef1234.zip',
      '1.0.0/abcdef1.phar',
    ]) {
      const before = upstream.requests.length
      expect((await ask(`dist/${name}/${file}`)).statusCode).toBe(404)
      expect(upstream.requests.length).toBe(before)
    }
  })
})

import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readlink, rm, truncate } from 'node:fs/promises'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it, vi } from 'vitest'
import { useApp } from '../../support/app.ts'
import { markDeleted, markPurged } from '../../support/package-rows.ts'
import { aPackageZip, aPublisher } from '../../support/registry-actors.ts'
import { aZip } from '../../support/zip.ts'

const t = useApp()

async function aPublishedArchive(zip = aPackageZip('acme/lib')) {
  const publisher = await aPublisher(t)
  const { sha256 } = (await publisher.push('1.0.0', { payload: zip })).json()
  return { ...publisher, zip, sha256: sha256 as string, dist: `dist/acme/lib/1.0.0/${sha256}.zip` }
}

describe('GET dist/<vendor>/<package>/<version>/<sha256>.zip (COMPOSER E4)', () => {
  it('returns exactly the bytes that were uploaded', async () => {
    const { ask, dist, zip, sha256 } = await aPublishedArchive()
    const response = await ask(dist)
    expect(response.statusCode).toBe(200)
    expect(response.rawPayload.equals(zip)).toBe(true)
    const digest = Buffer.from(sha256, 'hex').toString('base64')
    expect(response.headers).toMatchObject({
      'content-type': 'application/zip',
      'content-length': String(zip.length),
      'cache-control': 'private, max-age=31536000, immutable',
      etag: `"${sha256}"`,
      digest: `sha-256=${digest}`,
      'repr-digest': `sha-256=:${digest}:`,
      'accept-ranges': 'bytes',
      'content-disposition': 'attachment; filename="acme-lib-1.0.0.zip"',
    })
    expect(response.headers['content-encoding']).toBeUndefined()
  })

  it('returns exactly the bytes of an archive that is too large for one read', async () => {
    const noise = randomBytes(5_000_000)
    const large = aZip({ 'composer.json': '{"name":"acme/lib"}', 'noise.bin': noise })
    const { ask, dist } = await aPublishedArchive(large)
    expect((await ask(dist)).rawPayload.equals(large)).toBe(true)
    const part = await ask(dist, { headers: { range: 'bytes=1000-600999' } })
    expect(part.rawPayload.equals(large.subarray(1000, 601_000))).toBe(true)
  })

  it('opens one file for pipelined requests, and closes it when the client disconnects', async () => {
    const large = aZip({ 'composer.json': '{"name":"acme/lib"}', 'noise.bin': randomBytes(5_000_000) })
    const { dist, path, authorization, sha256 } = await aPublishedArchive(large)
    const countOpenFiles = async () => {
      const links = (await readdir('/proc/self/fd')).map((fd) =>
        readlink(`/proc/self/fd/${fd}`).catch(() => ''),
      )
      return (await Promise.all(links)).filter((link) => link.endsWith(`${sha256}.zip`)).length
    }
    await t.app.listen({ host: '127.0.0.1', port: 0 })
    const socket = connect((t.app.server.address() as AddressInfo).port, '127.0.0.1')
    await once(socket, 'connect')
    const head = `GET ${path}${dist} HTTP/1.1\r\nHost: svc.test\r\nAuthorization: ${authorization}\r\n\r\n`
    // The client reads nothing, and the kernel has no buffer for all responses.
    socket.write(head.repeat(12))
    await vi.waitFor(async () => expect(await countOpenFiles()).toBe(1), 60_000)
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(await countOpenFiles()).toBe(1)
    socket.destroy()
    await vi.waitFor(async () => expect(await countOpenFiles()).toBe(0), 60_000)
    expect(t.log()).not.toMatch(/"level":(?:50|60)/)
  })

  it('returns ranges of a small archive, the first time and from memory', async () => {
    const zip = aPackageZip('acme/lib', { description: 'in parts' })
    const { ask, dist } = await aPublishedArchive(zip)
    for (const [range, expected] of [
      ['bytes=10-19', zip.subarray(10, 20)],
      ['bytes=10-19', zip.subarray(10, 20)],
      ['bytes=-5', zip.subarray(-5)],
    ] as const) {
      const response = await ask(dist, { headers: { range } })
      expect([response.statusCode, response.rawPayload.equals(expected)]).toEqual([206, true])
    }
    expect((await ask(dist)).rawPayload.equals(zip)).toBe(true)
  })

  it('responds to HEAD with the same headers and no body', async () => {
    const { ask, dist, zip } = await aPublishedArchive()
    const response = await ask(dist, { method: 'HEAD' })
    expect([response.statusCode, response.body]).toEqual([200, ''])
    expect(response.headers['content-length']).toBe(String(zip.length))
  })

  it('opens no file for HEAD', async () => {
    const { ask, dist, sha256 } = await aPublishedArchive()
    const path = join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`)
    await rm(path)
    // Opening a named pipe waits for its writer, but reading its size does not.
    await promisify(execFile)('mkfifo', [path])
    const response = await ask(dist, { method: 'HEAD', headers: { range: 'bytes=10-19' } })
    expect([response.statusCode, response.headers['content-length']]).toEqual([200, '0'])
    await rm(path)
    expect((await ask(dist, { method: 'HEAD' })).statusCode).toBe(500)
  })

  it('responds with 304 to a client that has the archive', async () => {
    const { ask, dist, sha256 } = await aPublishedArchive()
    for (const tag of [`"${sha256}"`, `"other", W/"${sha256}"`, '*']) {
      const response = await ask(dist, { headers: { 'if-none-match': tag } })
      expect([response.statusCode, response.body]).toEqual([304, ''])
    }
    expect((await ask(dist, { headers: { 'if-none-match': '"other"' } })).statusCode).toBe(200)
  })

  it('returns a range, or the whole archive when If-Range does not match', async () => {
    const { ask, dist, zip, sha256 } = await aPublishedArchive()
    const response = await ask(dist, { headers: { range: 'bytes=10-19', 'if-range': `"${sha256}"` } })
    expect(response.statusCode).toBe(206)
    expect(response.rawPayload.equals(zip.subarray(10, 20))).toBe(true)
    expect(response.headers['content-range']).toBe(`bytes 10-19/${zip.length}`)
    expect((await ask(dist, { headers: { range: 'bytes=10-19', 'if-range': '"other"' } })).statusCode).toBe(
      200,
    )
    const beyond = await ask(dist, { headers: { range: `bytes=${zip.length}-` } })
    expect([beyond.statusCode, beyond.json().errcode]).toEqual([416, 11])
    expect(beyond.headers['content-range']).toBe(`bytes */${zip.length}`)
  })

  it('serves a deleted version, for lock files, until it is purged', async () => {
    const { ask, dist, repository, sha256 } = await aPublishedArchive()
    await markDeleted(t.db, repository)
    expect((await ask(dist)).statusCode).toBe(200)
    await markPurged(t.db, { sha256 })
    expect((await ask(dist)).statusCode).toBe(404)
  })

  it('is 404 under another version, name or hash', async () => {
    const { ask, sha256, push } = await aPublishedArchive()
    await push('2.0.0', { manifest: { description: 'other' } })
    const zeros = '0'.repeat(64)
    for (const path of [
      `acme/lib/2.0.0/${sha256}`,
      `acme/other/1.0.0/${sha256}`,
      `acme/lib/1.0.0/${zeros}`,
      'a/b/c/d',
    ]) {
      const response = await ask(`dist/${path}.zip`)
      expect([path, response.statusCode, response.json().errcode]).toEqual([path, 404, 5])
    }
  })

  it('says that data is lost when the volume has lost a part of it', async () => {
    for (const bytes of [0, 300_000]) {
      const zip = aZip({ 'composer.json': '{"name":"acme/lib"}', 'noise.bin': randomBytes(bytes + 1) })
      const { ask, dist, sha256 } = await aPublishedArchive(zip)
      await truncate(join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`), 10)
      const response = await ask(dist)
      expect([response.statusCode, response.json().errcode]).toEqual([500, 15])
    }
  })

  it('says that data is lost when the volume has lost it', async () => {
    // Use bytes that nobody has requested yet: others would come from memory.
    const zip = aPackageZip('acme/lib', { description: 'lost' })
    const { ask, dist, sha256 } = await aPublishedArchive(zip)
    await rm(join(t.config.dataDir, 'archives', sha256.slice(0, 2), `${sha256}.zip`))
    const response = await ask(dist)
    expect([response.statusCode, response.json().errcode]).toEqual([500, 15])
  })
})

import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { aCaller } from '../support/api-actors.ts'
import { useListeningApp } from '../support/listening.ts'
import { startNginxProxy } from '../support/nginx-proxy.ts'
import { freePort } from '../support/program.ts'
import { aPackageZip, basic, type Publisher } from '../support/registry-actors.ts'
import { has } from '../support/requires.ts'

const [port, proxyPort] = [await freePort(), await freePort()]
const proxy = `http://127.0.0.1:${proxyPort}`

describe.skipIf(!has('nginx'))('behind nginx as docs/nginx.md configures it', () => {
  const t = useListeningApp(port, { BASE_URL: proxy, ACCEL_REDIRECT_PREFIX: '/svc-archives/' })
  let stopNginx: () => Promise<void>
  beforeAll(async () => {
    stopNginx = await startNginxProxy({ port: proxyPort, processPorts: [port], dataDir: t.config.dataDir })
  })
  afterAll(() => stopNginx())

  const get = (path: string, headers: Record<string, string> = {}) => fetch(`${proxy}${path}`, { headers })

  async function aPublishedArchive(publisher: Publisher, zip = aPackageZip('acme/lib')) {
    const headers = { authorization: publisher.authorization }
    const url = `${proxy}${publisher.path}upload/acme/lib/1.0.0`
    const uploaded = await fetch(url, { method: 'PUT', headers, body: new Uint8Array(zip) })
    expect(uploaded.status).toBe(201)
    const published = (await uploaded.json()) as { url: string; sha256: string }
    return { ...published, zip, headers, path: new URL(published.url).pathname }
  }

  it('lets nginx send the archive, after svc has checked the token', async () => {
    const caller = await aCaller(t)
    const { path, zip, headers, sha256 } = await aPublishedArchive(caller)
    const direct = await fetch(`http://127.0.0.1:${port}${path}`, { headers })
    expect([direct.headers.get('x-accel-redirect'), await direct.text()]).toEqual([
      `/svc-archives/${sha256.slice(0, 2)}/${sha256}.zip`,
      '',
    ])

    const response = await get(path, headers)
    expect(Buffer.from(await response.arrayBuffer()).equals(zip)).toBe(true)
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/zip',
      'content-length': String(zip.length),
      'cache-control': 'private, max-age=31536000, immutable',
      'content-disposition': 'attachment; filename="acme-lib-1.0.0.zip"',
      etag: `"${sha256}"`,
    })
    const part = await get(path, { ...headers, range: 'bytes=10-19' })
    expect([part.status, Buffer.from(await part.arrayBuffer())]).toEqual([206, zip.subarray(10, 20)])
    expect((await get(path, { ...headers, 'if-none-match': `"${sha256}"` })).status).toBe(304)
    const head = await fetch(`${proxy}${path}`, { method: 'HEAD', headers })
    expect([head.status, head.headers.get('content-length')]).toEqual([200, String(zip.length)])

    expect((await get(path)).status).toBe(401)
    expect((await get(path, { authorization: basic('wrong') })).status).toBe(401)
    expect((await get(`/svc-archives/${sha256.slice(0, 2)}/${sha256}.zip`, headers)).status).toBe(404)

    await caller.call('POST', '/packages/acme/lib/1.0.0/quarantine')
    const refused = await get(path, headers)
    expect([refused.status, refused.headers.get('content-type')]).toEqual([410, 'application/json'])
  })

  it('serves the documents of a public repository from its cache, to those without credentials', async () => {
    const caller = await aCaller(t, { visibility: 'public' })
    const { headers } = await aPublishedArchive(caller)
    for (const file of ['packages.json', 'filter.json', 'p2/acme/lib.json']) {
      const seen = async (more = {}) => {
        const response = await get(caller.path + file, more)
        return [response.status, response.headers.get('x-cache'), await response.text()]
      }
      const [, , body] = await seen()
      expect(await seen()).toEqual([200, 'HIT', body])
      // A request with credentials gets the current response of svc.
      expect(await seen(headers)).toEqual([200, null, body])
      expect((await seen({ authorization: basic('wrong') }))[0]).toBe(401)
    }
    const fresh = `${caller.path}p2/acme/fresh.json`
    expect((await get(fresh)).status).toBe(404)
    await caller.push('1.0.0', { name: 'acme/fresh' })
    expect((await get(fresh)).status).toBe(200)
  })

  it('does not cache responses of a private repository', async () => {
    const caller = await aCaller(t)
    const { headers } = await aPublishedArchive(caller)
    const url = `${caller.path}p2/acme/lib.json`
    expect((await get(url, headers)).status).toBe(200)
    expect((await get(url)).status).toBe(401)
    await caller.call('PATCH', '', { visibility: 'public' })
    expect((await get(url)).status).toBe(200)
  })
})

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { aCaller } from '../support/api-actors.ts'
import { freePort, useListeningApp } from '../support/listening.ts'
import { aPackageZip, basic, type Publisher } from '../support/registry-actors.ts'
import { has } from '../support/requires.ts'

const [port, proxyPort] = [await freePort(), await freePort()]
const proxy = `http://127.0.0.1:${proxyPort}`

/** The configuration of docs/nginx.md, without its certificate, for this machine. */
async function configurationFor(folder: string, dataDir: string): Promise<string> {
  const text = await readFile(new URL('../../docs/nginx.md', import.meta.url), 'utf8')
  const [, documented = ''] = /^```nginx\n(.*?)^```/ms.exec(text) ?? []
  const kinds = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  return `
    daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log;
    events { worker_connections 256; }
    http {
      access_log off; ${kinds.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
      ${documented
        .replace('listen 443 ssl;', `listen 127.0.0.1:${proxyPort};`)
        .replace(/^ *ssl_.*\n/gm, '')
        .replace('127.0.0.1:3000', `127.0.0.1:${port}`)
        .replace('/var/cache/nginx/svc', `${folder}/cache`)
        .replace('/var/lib/svc/archives/', `${dataDir}/archives/`)}
    }`
}

describe.skipIf(!has('nginx'))('behind nginx as docs/nginx.md configures it', () => {
  const t = useListeningApp(port, { BASE_URL: proxy, ACCEL_REDIRECT_PREFIX: '/svc-archives/' })
  let folder: string
  let nginx: ChildProcess

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'svc-test-nginx-'))
    const file = join(folder, 'nginx.conf')
    await writeFile(file, await configurationFor(folder, t.config.dataDir))
    nginx = spawn('nginx', ['-c', file, '-p', folder], { stdio: 'inherit' })
    await vi.waitUntil(
      () =>
        fetch(`${proxy}/healthz`).then(
          ({ ok }) => ok,
          () => false,
        ),
      { timeout: 10_000 },
    )
  })
  afterAll(async () => {
    nginx.kill()
    if (nginx.exitCode === null) await once(nginx, 'exit')
    await rm(folder, { recursive: true })
  })

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

    const answer = await get(path, headers)
    expect(Buffer.from(await answer.arrayBuffer()).equals(zip)).toBe(true)
    expect(Object.fromEntries(answer.headers)).toMatchObject({
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
        const answer = await get(caller.path + file, more)
        return [answer.status, answer.headers.get('x-cache'), await answer.text()]
      }
      const [, , body] = await seen()
      expect(await seen()).toEqual([200, 'HIT', body])
      // Whoever sends credentials gets what svc says now.
      expect(await seen(headers)).toEqual([200, null, body])
      expect((await seen({ authorization: basic('wrong') }))[0]).toBe(401)
    }
    const fresh = `${caller.path}p2/acme/fresh.json`
    expect((await get(fresh)).status).toBe(404)
    await caller.push('1.0.0', { name: 'acme/fresh' })
    expect((await get(fresh)).status).toBe(200)
  })

  it('keeps nothing of a private repository', async () => {
    const caller = await aCaller(t)
    const { headers } = await aPublishedArchive(caller)
    const url = `${caller.path}p2/acme/lib.json`
    expect((await get(url, headers)).status).toBe(200)
    expect((await get(url)).status).toBe(401)
    await caller.call('PATCH', '', { visibility: 'public' })
    expect((await get(url)).status).toBe(200)
  })
})

import { craftZip } from '../test/support/zip.ts'
import { requestText, startLoadProcess } from './load.ts'
import { aManifest, aRegistry } from './seed.ts'
import type { Server } from './server.ts'
import { figure, ratio, table } from './table.ts'

const name = 'bench/wide'
const files = 50_000
const connections = 10
/** How long pulls are measured beside requests that get no response. */
const maxMilliseconds = 30_000
const versions = ['1.0.0', '1.1.0', '1.2.0']

/** Requests of one client, which its connections send in turn. */
interface Expensive {
  name: string
  request: (i: number) => { path: string; init?: RequestInit }
}

/**
 * Measures pulls alone, and beside ten connections of one client that request expensive pages: those of archives with
 * 50,000 files, their uploads, and `/metrics`; then usual pages and an endpoint of the API. The statuses are those of these
 * requests.
 */
export async function measureExpensive(server: Server, count: number): Promise<string> {
  const { repository, path, authorization } = await aRegistry(server.db, 'public')
  const upload = (version: string, archive: Buffer) => ({
    path: `${path}upload/${name}/${version}`,
    init: { method: 'PUT', headers: { authorization }, body: new Uint8Array(archive) },
  })
  const archives = versions.map((_, i) => wideArchive(i))
  for (const [i, version] of versions.entries()) {
    const { path: url, init } = upload(version, archives[i] as Buffer)
    const pushed = await fetch(server.baseUrl + url, init)
    if (pushed.status !== 201) throw new Error(await pushed.text())
  }
  const page = `/${repository.path}/packages/${name}`
  const bearer = {
    headers: {
      authorization: `Bearer ${Buffer.from(authorization.slice('Basic '.length), 'base64').toString().split(':')[1]}`,
    },
  }
  const at = (i: number) => versions[i % versions.length] as string
  const expensive: Expensive[] = [
    { name: 'compare', request: (i) => ({ path: `${page}/-/compare?from=${at(i)}&to=${at(i + 1)}` }) },
    {
      name: 'list of files',
      request: (i) => ({ path: `${page}/-/files?version=${at(i)}&path=src/d${i % 100}&from=${i % 300}` }),
    },
    {
      name: 'file',
      request: (i) => ({
        path: `${page}/-/files?version=${at(i)}&path=src/d1/File1.php&line=${1 + (i % 500)}`,
      }),
    },
    {
      name: 'upload',
      request: (i) => upload(`2.0.${i}`, archives[i % archives.length] as Buffer),
    },
    { name: '/metrics', request: () => ({ path: '/metrics' }) },
    { name: 'package page', request: () => ({ path: page }) },
    { name: 'search', request: (i) => ({ path: `/search?q=${'abcdefghij'[i % 10]}` }) },
    { name: 'home', request: () => ({ path: '/' }) },
    {
      name: 'package (API)',
      request: () => ({
        path: `/api/repositories/${repository.path}/packages/${name}`,
        init: bearer,
      }),
    },
  ]

  const load = startLoadProcess()
  try {
    const pull = async () => {
      const requests = [requestText(`${path}p2/${name}.json`, { headers: { authorization } })]
      return load.run({ port: server.port, connections: 1, count, requests, status: 200 })
    }
    await pull()
    const alone = await pull()
    const rows = [['alone', figure(alone.p95Ms), '', '', '']]
    for (const { name: title, request } of expensive) {
      const client = startClient(server, request)
      const start = performance.now()
      let p95Ms = 0
      // Until each connection has got a response, with the first ones, which no memory makes quick.
      do p95Ms = Math.max(p95Ms, (await pull()).p95Ms)
      while (client.count() < connections && performance.now() - start < maxMilliseconds)
      const { perSecond, statuses } = await client.stop()
      rows.push([`beside ${title}`, figure(p95Ms), ratio(p95Ms / alone.p95Ms), figure(perSecond), statuses])
    }
    return table(['pulls', 'p95 ms', 'of alone', 'expensive req/s', 'statuses'], rows)
  } finally {
    load.stop()
  }
}

/** Sends requests over ten connections, one after another on each, until it is stopped. */
function startClient({ baseUrl }: Server, request: Expensive['request']) {
  const counts = new Map<string, number>()
  const start = performance.now()
  let sent = 0
  let isStopped = false

  async function loop(): Promise<void> {
    while (!isStopped) {
      sent += 1
      const { path, init } = request(sent)
      const response = await fetch(baseUrl + path, init).catch(() => null)
      await response?.arrayBuffer()
      const status = String(response?.status ?? 'closed')
      counts.set(status, (counts.get(status) ?? 0) + 1)
    }
  }

  const loops = Array.from({ length: connections }, loop)
  const count = () => [...counts.values()].reduce((sum, n) => sum + n, 0)
  return {
    /** Returns the number of responses so far. */
    count,
    async stop() {
      const seconds = (performance.now() - start) / 1000
      const answered = count()
      const statuses = [...counts].map(([status, n]) => `${status}: ${n}`).join(', ')
      isStopped = true
      await Promise.all(loops)
      return { perSecond: answered / seconds, statuses }
    },
  }
}

/** Returns an archive with many small files in 100 folders. Those of another version differ in part. */
function wideArchive(version: number): Buffer {
  const entries = Array.from({ length: files - 1 }, (_, i) => ({
    name: `src/d${i % 100}/File${i}.php`,
    content: i === 1 ? longFile(version) : `<?php // ${i % 10 === 0 ? version : ''}`,
    method: i === 1 ? 8 : 0,
  }))
  return craftZip([{ name: 'composer.json', content: JSON.stringify(aManifest(name)) }, ...entries])
}

function longFile(version: number): string {
  return Array.from({ length: 2500 }, (_, i) => `  public function f${i}(): int { return ${i + version}; }`)
    .join('\n')
    .replace(/^/, '<?php\nclass File1 {\n')
}

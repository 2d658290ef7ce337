import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { freePort } from '../test/support/program.ts'
import { aZip } from '../test/support/zip.ts'
import { requestText } from './load.ts'
import { type Measured, measure, measuredCells, measuredHead } from './measure.ts'
import { type StaticFile, startNginx } from './nginx.ts'
import { aManifest, aRegistry, claimPackages, growPackage, type Registry } from './seed.ts'
import { type Server, startHello } from './server.ts'
import { ratio, table } from './table.ts'

/** One kind of pull. */
interface Pull {
  name: string
  /** The URL path, relative to the registry URL. */
  path: string
  headers: Record<string, string>
  status: number
}

const name = 'bench/lib'
const connections = 32

/**
 * Measures pulls from svc without and with a token. For comparison it measures nginx with the same bytes, and a Fastify
 * server that sends a constant.
 */
export async function measurePulls(server: Server, folder: string, count: number): Promise<string> {
  const open = await seed(server, 'public')
  const closed = await seed(server, 'private')
  const pulls = await listPulls(server, open)
  const nginx = await startNginx(
    join(folder, 'nginx'),
    await copyFiles(server, open, pulls),
    await freePort(),
  )
  const hello = await startHello(folder)
  try {
    const greeting = await run(hello, { name: '', path: '/', headers: {}, status: 200 }, count)
    const rows = [['a bare Fastify’s hello', ...measuredCells(greeting), '', '']]
    if (!nginx) rows.push(['nginx: skipped, because it is not installed', '', '', '', '', '', '', ''])
    for (const pull of pulls) {
      const plain = nginx && (await run(nginx, { ...pull, path: `/${pull.path}` }, count))
      const add = (who: string, measured: Measured) => {
        const ratios = [plain, greeting].map((other) => compare(measured, other))
        rows.push([`${pull.name}, ${who}`, ...measuredCells(measured), ...ratios])
      }
      if (plain) add('nginx', plain)
      add('anonymous', await run(server, { ...pull, path: open.path + pull.path }, count))
      const headers: Record<string, string> = { ...pull.headers, authorization: closed.authorization }
      const lastModified = await lastModifiedOf(server, closed, pull)
      if (pull.status === 304) headers['if-modified-since'] = lastModified
      add('token', await run(server, { ...pull, path: closed.path + pull.path, headers }, count))
    }
    return table(['pull', ...measuredHead, 'of nginx', 'of hello'], rows)
  } finally {
    await hello.stop()
    await nginx?.stop()
  }
}

async function run(
  server: Parameters<typeof measure>[0],
  { path, headers, status }: Pull,
  count: number,
): Promise<Measured> {
  const load = { connections, status, requests: [requestText(path, { headers })] }
  await measure(server, { ...load, count: Math.min(count, 1000) })
  return measure(server, { ...load, count })
}

/** Creates a repository with 200 packages. One of them has 20 versions and an archive of 8 KB. */
async function seed(server: Server, visibility: 'public' | 'private'): Promise<Registry> {
  const registry = await aRegistry(server.db, visibility)
  const { baseUrl, db } = server
  await growPackage(db, registry.repository.id, { name, to: 20, baseUrl })
  await claimPackages(db, registry.repository.id, { vendor: 'bench', count: 199 })
  const { authorization } = registry
  const response = await fetch(`${baseUrl}${registry.path}upload/${name}/2.0.0`, {
    method: 'PUT',
    headers: { authorization },
    body: archive,
  })
  if (response.status !== 201) throw new Error(await response.text())
  return registry
}

/** Both repositories get this archive. Its path is the same in both, because its hash is part of the path. */
const archive = new Uint8Array(
  aZip({ 'composer.json': JSON.stringify(aManifest(name)), 'src/Noise.php': randomBytes(8000) }),
)

async function listPulls(server: Server, open: Registry): Promise<Pull[]> {
  const { packages } = (await (await ask(server, open, `p2/${name}.json`)).json()) as {
    packages: Record<string, { dist: { url: string } }[]>
  }
  const [, dist = ''] = packages[name]?.[0]?.dist.url.split('/-/packages/') ?? []
  const gzip = { 'accept-encoding': 'gzip' }
  const document = { path: `p2/${name}.json`, headers: gzip }
  const unchanged = {
    'if-modified-since': await lastModifiedOf(server, open, document),
    'accept-encoding': 'gzip',
  }
  return [
    { name: 'packages.json', path: 'packages.json', headers: gzip, status: 200 },
    { name: 'p2', ...document, status: 200 },
    { name: 'p2, 304', path: document.path, headers: unchanged, status: 304 },
    { name: 'p2, 404', path: 'p2/bench/unknown.json', headers: gzip, status: 404 },
    { name: 'archive of 8 KB', path: dist, headers: {}, status: 200 },
  ]
}

/** Reads the bytes that svc sends, so that nginx can serve the same bytes. */
async function copyFiles(server: Server, open: Registry, pulls: Pull[]): Promise<StaticFile[]> {
  const paths = [...new Set(pulls.filter(({ status }) => status === 200).map(({ path }) => path))]
  return Promise.all(
    paths.map(async (path) => {
      const response = await ask(server, open, path)
      const lastModified = new Date(response.headers.get('last-modified') ?? Date.now())
      return { path, bytes: Buffer.from(await response.arrayBuffer()), lastModified }
    }),
  )
}

async function lastModifiedOf(
  server: Server,
  registry: Registry,
  { path }: { path: string },
): Promise<string> {
  return (await ask(server, registry, path)).headers.get('last-modified') ?? ''
}

function ask(server: Server, { path, authorization }: Registry, below: string): Promise<Response> {
  return fetch(server.baseUrl + path + below, { headers: { authorization } })
}

function compare(ofSvc: Measured, ofNginx: Measured | null): string {
  return ofNginx ? ratio(ofSvc.perSecond / ofNginx.perSecond) : ''
}

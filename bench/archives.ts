import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { projectRoot } from '../src/config.ts'
import { databaseUrl, freePort } from '../test/support/program.ts'
import { craftZip } from '../test/support/zip.ts'
import { requestText } from './load.ts'
import { type Measured, measure, measuredCells, measuredHead } from './measure.ts'
import { startNginx } from './nginx.ts'
import { aManifest, aRegistry } from './seed.ts'
import { type Listener, type Server, startListener } from './server.ts'
import { ratio, table } from './table.ts'

const name = 'bench/megabyte'
const prefix = '/svc-archives/'
const connections = [16, 64]

/**
 * Measures pulls of an archive of 1 MB from three servers: svc itself, svc behind an nginx that sends the file
 * (`ACCEL_REDIRECT_PREFIX`), and nginx alone, which checks no permission. The CPU time is that of svc and PostgreSQL.
 */
export async function measureArchives(server: Server, folder: string, count: number): Promise<string> {
  const { path, authorization } = await aRegistry(server.db, 'private')
  const noise = randomBytes(1_000_000)
  const archive = craftZip([
    { name: 'composer.json', content: JSON.stringify(aManifest(name)) },
    { name: 'noise.bin', content: noise, raw: noise, method: 0 },
  ])
  const pushed = await fetch(`${server.baseUrl}${path}upload/${name}/1.0.0`, {
    method: 'PUT',
    headers: { authorization },
    body: new Uint8Array(archive),
  })
  if (pushed.status !== 201) throw new Error(await pushed.text())
  const { url } = (await pushed.json()) as { url: string }
  const dist = new URL(url).pathname

  const [behindPort, proxyPort, plainPort] = [await freePort(), await freePort(), await freePort()]
  const plain = await startNginx(
    join(folder, 'plain'),
    [{ path: dist.slice(1), bytes: archive, lastModified: new Date() }],
    plainPort,
  )
  if (!plain) return 'archives: skipped, because nginx is not installed'
  const behind = await startBehind(server, folder, behindPort)
  const proxy = await startNginx(join(folder, 'proxy'), [], proxyPort, {
    http: `upstream svc { server 127.0.0.1:${behindPort}; keepalive 64; }`,
    server: `location / { proxy_pass http://svc; proxy_http_version 1.1; proxy_set_header Connection ""; }
      location ${prefix} { internal; alias ${join(folder, 'data/archives')}/; }`,
  })
  try {
    const requests = [requestText(dist, { headers: { authorization } })]
    const run = async (listener: Parameters<typeof measure>[0], many: number): Promise<Measured> => {
      const load = { connections: many, status: 200, requests }
      await measure(listener, { ...load, count: 500 })
      return measure(listener, { ...load, count })
    }
    const rows: string[][] = []
    for (const many of connections) {
      const alone = await run(plain, many)
      const add = (who: string, measured: Measured) =>
        rows.push([
          `${who}, ${many} connections`,
          ...measuredCells(measured),
          ratio(measured.perSecond / alone.perSecond),
        ])
      add('nginx', alone)
      add('svc', await run(server, many))
      const { pid } = behind
      add(
        'nginx sends, svc checks',
        await run({ ...behind, pid, port: proxyPort, postmasterPid: server.postmasterPid }, many),
      )
    }
    return table(['archive of 1 MB', ...measuredHead, 'of nginx'], rows)
  } finally {
    await proxy?.stop()
    await behind.stop()
    await plain.stop()
  }
}

/** Starts another svc process on the same database and archives. */
function startBehind(server: Server, folder: string, port: number): Promise<Listener> {
  const environment = {
    DATABASE_URL: databaseUrl(server.connection),
    DATA_DIR: join(folder, 'data'),
    HOST: '127.0.0.1',
    PORT: String(port),
    ACCEL_REDIRECT_PREFIX: prefix,
  }
  return startListener([join(projectRoot, 'dist/main.js')], port, {
    environment,
    log: join(folder, 'behind.log'),
  })
}

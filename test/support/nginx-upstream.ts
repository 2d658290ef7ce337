import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { freePort } from './program.ts'
import { aPackageZip } from './registry-actors.ts'
import { has } from './requires.ts'
import { untilTrue } from './until.ts'
import { longAgo, type VersionKeys } from './upstream.ts'

export const hasNginx = has('nginx')

/** A static Composer repository, served by the real nginx. */
export interface NginxUpstream {
  url: string
  put: (path: string, content: object | string | Buffer) => Promise<void>
  /** Publishes versions of a package with their archives. */
  offer: (
    name: string,
    versions: VersionKeys[],
    about?: { isDev?: boolean; zip?: Buffer; archivePath?: string },
  ) => Promise<void>
  /** Every request so far: `GET /p2/acme/lib.json`. */
  requests: () => Promise<string[]>
  stop: () => Promise<void>
  start: () => Promise<void>
  remove: () => Promise<void>
}

/**
 * Starts nginx with an empty repository. It has a search, advisories, a change feed, and URLs that return errors: see the
 * configuration. The advisories of all packages are the file `advisories.json`. The feed of a timestamp is the file
 * `changes/<timestamp>.json`.
 */
export async function startNginxUpstream(): Promise<NginxUpstream> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-nginx-'))
  const [port, otherPort] = [await freePort(), await freePort()]
  const url = `http://127.0.0.1:${port}`
  await mkdir(join(folder, 'root'))
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  await writeFile(
    join(folder, 'nginx.conf'),
    `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log crit;
     events { worker_connections 256; }
     http {
       ${temporary.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join(' ')}
       types { application/json json; application/zip zip; text/html html; }
       log_format asked '$request_method $request_uri';
       access_log ${folder}/access.log asked; gzip on; gzip_types application/json; root ${folder}/root;
       server {
         listen 127.0.0.1:${port};
         location = /p2/fault/e500.json { return 500; }
         location = /p2/fault/e410.json { return 410; }
         location = /p2/fault/e429.json { add_header Retry-After 7 always; return 429; }
         location = /p2/fault/html.json { default_type text/html; return 200 "<h1>Maintenance</h1>"; }
         location = /changes.json {
           default_type application/json;
           if ($arg_since = "") { return 400 '{"error":"Invalid or missing since","timestamp":1000}'; }
           try_files /changes/$arg_since.json =404;
         }
         # nginx refuses a POST for a file. The page of that error is the file.
         location = /advisories { error_page 405 =200 /advisories.json; return 405; }
         location /slow/ { limit_rate 20k; }
         location /moved/ { return 302 http://127.0.0.1:${otherPort}$request_uri; }
       }
       server { listen 127.0.0.1:${otherPort}; }
     }`,
  )
  let running: { child: ReturnType<typeof spawn>; ended: Promise<unknown> } | null = null

  const upstream: NginxUpstream = {
    url,
    async put(path, content) {
      const file = join(folder, 'root', path)
      await mkdir(dirname(file), { recursive: true })
      const isRaw = typeof content === 'string' || Buffer.isBuffer(content)
      await writeFile(file, isRaw ? content : JSON.stringify(content))
    },
    async offer(name, versions, { isDev = false, zip, archivePath = 'archives' } = {}) {
      const entries = await Promise.all(
        versions.map(async (keys) => {
          const path = `${archivePath}/${name}/${keys.version.replaceAll('/', '-')}.zip`
          const { dist: _, source: __, 'published-time': ___, ...manifest } = keys
          await upstream.put(path, zip ?? aPackageZip(name, { ...manifest, version: undefined }))
          const reference = Buffer.from(`${name} ${keys.version}`)
            .toString('hex')
            .padStart(40, '0')
            .slice(-40)
          const dist = { type: 'zip', url: `${url}/${path}`, reference, shasum: '' }
          return { name, dist, time: longAgo, 'published-time': longAgo, ...keys }
        }),
      )
      await upstream.put(`p2/${name}${isDev ? '~dev' : ''}.json`, { packages: { [name]: entries } })
    },
    async requests() {
      const lines = await readFile(join(folder, 'access.log'), 'utf8')
      return lines.split('\n').filter((line) => line !== '')
    },
    async start() {
      const child = spawn('nginx', ['-c', join(folder, 'nginx.conf'), '-p', folder], { stdio: 'ignore' })
      running = { child, ended: once(child, 'exit') }
      await untilTrue(
        () => isListening(port),
        () => 'nginx does not listen',
      )
    },
    async stop() {
      running?.child.kill()
      await running?.ended
      running = null
    },
    async remove() {
      await upstream.stop()
      await rm(folder, { recursive: true })
    },
  }
  await upstream.put('packages.json', {
    packages: [],
    'metadata-url': '/p2/%package%.json',
    'metadata-changes-url': '/changes.json',
    search: '/search.json?q=%query%&type=%type%',
    'security-advisories': { metadata: false, 'api-url': '/advisories' },
  })
  await upstream.put('advisories.json', { advisories: [] })
  await upstream.put('changes/1000.json', { actions: [], timestamp: 1000 })
  await upstream.start()
  return upstream
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}

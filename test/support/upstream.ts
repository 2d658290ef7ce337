import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll } from 'vitest'
import type { AppContext } from '../../src/context.ts'
import type { Queryable } from '../../src/database/database.ts'
import { enqueue, type Job } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import type { UpstreamRights } from '../../src/upstreams/client/fetch.ts'
import {
  askEarlierUpstream,
  askEarlierUpstreams,
  followFeeds,
  followSlowUpstream,
  followUpstream,
  refreshUpstream,
} from '../../src/upstreams/follow-feeds.ts'
import { openLog } from '../../src/web/server/log.ts'
import { aPackageZip } from './registry-actors.ts'

/** The response of a URL of a fake upstream, instead of its file. */
export type Fault = (request: IncomingMessage, response: ServerResponse) => unknown

/**
 * A Composer repository of somebody else, over real HTTP. It caches nothing, so changes by a test take effect at once.
 */
export interface FakeUpstream {
  readonly url: string
  readonly host: string
  /** Every request so far: `GET /p2/acme/lib.json`. */
  readonly requests: string[]
  /** The Authorization header of every request so far. */
  readonly authorizations: (string | undefined)[]
  /** The headers of the last request. */
  lastHeaders: IncomingMessage['headers']
  /** Stores a file at a path. An object becomes JSON. Null removes the file. */
  put: (path: string, content: object | string | Buffer | null) => void
  /** Returns the bytes of a file. */
  read: (path: string) => Buffer | undefined
  /** Makes a path fail. Null ends the failure. */
  fail: (path: string, fault: Fault | number | null) => void
  /** Publishes versions of a package, with archives; each call replaces the package's document. */
  offer: (
    name: string,
    versions: (string | VersionKeys)[],
    about?: { isDev?: boolean; document?: object },
  ) => void
}

/** Keys of a version's entry. */
export type VersionKeys = { version: string } & Record<string, unknown>

/** A date so old that no minimum age hides the version. */
export const longAgo = '2020-01-01T00:00:00+00:00'

/** Starts an upstream for a test file. */
export function useUpstream(root: Record<string, unknown> = {}): FakeUpstream {
  const files = new Map<string, { bytes: Buffer; lastModified: string }>()
  const faults = new Map<string, Fault>()
  const requests: string[] = []
  const authorizations: (string | undefined)[] = []
  let port = 0
  let clock = Date.UTC(2025, 0, 1)
  const server = createServer((request, response) => {
    const path = request.url ?? '/'
    requests.push(`${request.method} ${path}`)
    authorizations.push(request.headers.authorization)
    upstream.lastHeaders = request.headers
    const fault = faults.get(path)
    if (fault) return void fault(request, response)
    const file = files.get(path)
    if (!file) return void response.writeHead(404, { 'content-type': 'text/html' }).end('<h1>404</h1>')
    const headers = { 'last-modified': file.lastModified, 'content-length': file.bytes.length }
    if (request.headers['if-modified-since'] === file.lastModified)
      return void response.writeHead(304, headers).end()
    response.writeHead(200, headers).end(file.bytes)
  })
  // A client that is busy for seconds would use a connection in the moment in which the server closes it.
  server.keepAliveTimeout = 0
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    port = (server.address() as AddressInfo).port
    upstream.put('/packages.json', { packages: [], 'metadata-url': '/p2/%package%.json', ...root })
  })
  afterAll(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const upstream: FakeUpstream = {
    get url() {
      return `http://127.0.0.1:${port}`
    },
    get host() {
      return `127.0.0.1:${port}`
    },
    requests,
    authorizations,
    lastHeaders: {},
    put(path, content) {
      if (content === null) return void files.delete(path)
      clock += 1000
      const bytes = Buffer.isBuffer(content)
        ? content
        : Buffer.from(typeof content === 'string' ? content : JSON.stringify(content))
      files.set(path, { bytes, lastModified: new Date(clock).toUTCString() })
    },
    read: (path) => files.get(path)?.bytes,
    fail(path, fault) {
      if (fault === null) faults.delete(path)
      else if (typeof fault === 'number') faults.set(path, (_, response) => response.writeHead(fault).end())
      else faults.set(path, fault)
    },
    offer(name, versions, { isDev = false, document = {} } = {}) {
      const entries = versions.map((about) => {
        const keys = typeof about === 'string' ? { version: about } : about
        const reference = Buffer.from(`${name} ${keys.version}`).toString('hex').padEnd(40, '0').slice(-40)
        const path = `/archives/${name}/${encodeURIComponent(keys.version)}.zip`
        if (!files.has(path)) upstream.put(path, aPackageZip(name))
        return {
          name,
          dist: { type: 'zip', url: upstream.url + path, reference, shasum: '' },
          source: { type: 'git', url: 'https://git.example.com/x.git', reference },
          time: longAgo,
          'published-time': longAgo,
          ...keys,
        }
      })
      upstream.put(`/p2/${name}${isDev ? '~dev' : ''}.json`, { packages: { [name]: entries }, ...document })
    },
  }
  return upstream
}

/** Where the archive of a version is, for documents whose archives nobody fetches. */
export const distElsewhere = { type: 'zip', url: 'https://archives.example.com/a.zip', reference: 'abcdef1' }

/** A minified document with many versions that inherit everything from the first one. */
export function minifiedDocument(name: string, count: number, shared: object, rest: object = {}) {
  return {
    minified: 'composer/2.0',
    packages: {
      [name]: Array.from({ length: count }, (_, i) => ({
        ...(i === 0 && { name, dist: distElsewhere, ...shared }),
        version: `1.0.${i}`,
      })),
    },
    ...rest,
  }
}

/** The environment with which svc may read upstreams on this machine. */
export const upstreamsHere = { UPSTREAM_HTTP: 'true', UPSTREAM_PRIVATE_HOSTS: '127.0.0.1' }

/** The jobs that follow upstreams. */
export const followJobs = [followFeeds, followUpstream, followSlowUpstream, refreshUpstream] as Job[]

/** Follows all upstreams now: reads their malware lists and change feeds, and refreshes stale documents. */
export async function followUpstreams({ config, db }: AppContext): Promise<void> {
  await enqueue(db, followFeeds, undefined)
  await runDueJobs({ config, db }, followJobs, openLog('silent'))
}

/** Asks all upstreams now whether they have names that upstreams after them serve. */
export async function askUpstreams({ config, db }: AppContext): Promise<void> {
  await enqueue(db, askEarlierUpstreams, undefined)
  await runDueJobs({ config, db }, [askEarlierUpstreams, askEarlierUpstream] as Job[], openLog('silent'))
}

/** The rights of an upstream that an operator added. */
export function trusted(url: string): UpstreamRights {
  return { url, usesCredentials: true, credentialHosts: [], reachesPrivateHosts: true }
}

/** Raises the alarm for the archives of a mirrored package, as if their bytes had changed after the first fetch. */
export async function raiseAlarm(db: Queryable, packageName: string, alarm = 'other bytes'): Promise<void> {
  await db.query(
    `insert into archive (sha256, sha1, size)
     select hash, substring(hash for 20), 1 from sha256(convert_to($1, 'UTF8')) hash on conflict do nothing`,
    [packageName],
  )
  await db.query(
    `update mirrored_archive a set sha256 = sha256(convert_to($1, 'UTF8')), alarm = $2, alarmed_at = now()
       from mirrored_package m where m.id = a.package_id and m.name = $1`,
    [packageName, alarm],
  )
}

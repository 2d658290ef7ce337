import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AwsV4Signer } from 'aws4fetch'
import { freePort } from './program.ts'
import { untilTrue } from './until.ts'

/** The account that `tempauth` knows. */
export const credentials = { accessKeyId: 'test:tester', secretAccessKey: 'testing' }

/** A real object store on loopback: OpenStack Swift, with one disk and its S3 interface. */
export interface Swift {
  endpoint: string
  makeBucket: (name: string) => Promise<void>
  stop: () => Promise<void>
}

/** Starts Swift with its own memcached. Its files need extended attributes: not tmpfs before Linux 6.6. */
export async function startSwift(): Promise<Swift> {
  const folder = await mkdtemp(join(tmpdir(), 'svc-test-swift-'))
  const ports = {
    account: await freePort(),
    container: await freePort(),
    object: await freePort(),
    proxy: await freePort(),
    cache: await freePort(),
  }
  await mkdir(join(folder, 'etc'))
  await mkdir(join(folder, 'dev', 'd1'), { recursive: true })
  const files = configurationFiles(folder, ports)
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, 'etc', name), text)
  const servers = runServers(folder, ports)
  const endpoint = `http://127.0.0.1:${ports.proxy}`
  const stop = async () => {
    await servers.end()
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  try {
    // The proxy must reach its servers at the first attempt: it avoids a failed server for a minute.
    await Promise.all(Object.values(ports).map(untilListening))
    await untilReady(endpoint)
  } catch (error) {
    await stop()
    throw new Error(`Swift did not start: ${servers.printed()}`, { cause: error })
  }
  return {
    endpoint,
    stop,
    async makeBucket(name) {
      const signer = new AwsV4Signer({
        method: 'PUT',
        url: `${endpoint}/${name}`,
        ...credentials,
        service: 's3',
        region: 'us-east-1',
      })
      const { url, headers } = await signer.sign()
      const made = await fetch(url, { method: 'PUT', headers })
      if (made.status !== 200) throw new Error(`${made.status} ${await made.text()}`)
    },
  }
}

/** Runs the servers. They end with this process, too. */
function runServers(folder: string, ports: Record<string, number>) {
  const script = fileURLToPath(new URL('swift-servers.py', import.meta.url))
  const child = spawn('/usr/bin/python3', [script, folder, JSON.stringify(ports)], {
    env: { ...process.env, SWIFT_DIR: join(folder, 'etc') },
    stdio: ['pipe', 'ignore', 'pipe'],
  })
  let printed = ''
  child.stderr.on('data', (text: Buffer) => {
    printed += text.toString()
  })
  const ended = once(child, 'exit').catch(() => {})
  child.stdin.on('error', () => {})
  return {
    printed: () => printed,
    async end() {
      child.stdin.end()
      await ended
    },
  }
}

async function untilListening(port: number): Promise<void> {
  const isListening = async () => {
    const socket = connect(port, '127.0.0.1')
    const isOpen = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    return isOpen
  }
  await untilTrue(isListening, () => `Nothing listens on port ${port}: Swift did not start.`)
}

async function untilReady(endpoint: string): Promise<void> {
  const isReady = async () => (await fetch(`${endpoint}/healthcheck`).catch(() => null))?.status === 200
  await untilTrue(isReady, () => 'Swift did not start.')
}

function configurationFiles(folder: string, ports: Record<string, number>): Record<string, string> {
  const { username } =
    process.getuid?.() === 0 ? { username: 'root' } : { username: process.env['USER'] ?? 'root' }
  const common = (port: number | undefined) => `[DEFAULT]
swift_dir = ${folder}/etc
devices = ${folder}/dev
mount_check = false
bind_ip = 127.0.0.1
bind_port = ${port}
workers = 0
user = ${username}
log_level = WARNING
`
  const server = (name: string) => `${common(ports[name])}[pipeline:main]
pipeline = ${name}-server
[app:${name}-server]
use = egg:swift#${name}
`
  const filters = {
    s3api: `s3_acl = false\nlocation = us-east-1`,
    tempauth: 'user_test_tester = testing .admin',
    healthcheck: '',
    cache: `memcache_servers = 127.0.0.1:${ports['cache']}`,
    gatekeeper: '',
    catch_errors: '',
    listing_formats: '',
    slo: '',
    dlo: '',
  }
  return {
    'swift.conf': `[swift-hash]
swift_hash_path_suffix = abc
swift_hash_path_prefix = def
[storage-policy:0]
name = Policy-0
default = yes
`,
    'account-server.conf': server('account'),
    'container-server.conf': server('container'),
    'object-server.conf': server('object'),
    'proxy-server.conf': `${common(ports['proxy'])}[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats s3api tempauth slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
allow_account_management = true
account_autocreate = true
${Object.entries(filters)
  .map(
    ([name, lines]) => `[filter:${name}]\nuse = egg:swift#${name === 'cache' ? 'memcache' : name}\n${lines}`,
  )
  .join('\n')}
`,
  }
}

/** The fault that a store shows. */
export type BucketFault = 'none' | 'down' | 'silent' | 'slow' | '500' | '503' | 'full' | 'cut'

/** How long a slow store waits before each response. */
export const slowMilliseconds = 500

/** A proxy in front of a store. Tests can make it fail. */
export interface FaultyStore {
  endpoint: string
  /** Sets the fault of requests with this method, or of all requests. */
  fail: (fault: BucketFault, method?: string) => void
  /** Returns the number of requests since the last call of `fail`. */
  count: () => number
  /** Returns the first lines and headers of these requests. */
  heads: () => readonly string[]
  stop: () => Promise<void>
}

/** Starts such a proxy. It forwards bytes unchanged, and reads only the first line of each request. */
export async function startFaultyStore(target: string): Promise<FaultyStore> {
  let fault: BucketFault = 'none'
  let failing: string | undefined
  let heads: string[] = []
  const sockets = new Set<Socket>()
  const { port: targetPort } = new URL(target)

  const serve = (client: Socket) => {
    const store = connect(Number(targetPort), '127.0.0.1')
    let active: BucketFault = 'none'
    for (const [one, other] of [
      [client, store],
      [store, client],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
    client.on('data', (chunk: Buffer) => {
      const [, method] = /^(GET|HEAD|PUT|DELETE) \S+ HTTP\/1\.1\r\n/.exec(chunk.toString('latin1')) ?? []
      if (method !== undefined) {
        heads.push(chunk.toString('latin1').split('\r\n\r\n', 1)[0] ?? '')
        active = failing === undefined || failing === method ? fault : 'none'
        if (active === 'down') return void client.destroy()
        if (statuses[active] !== undefined) {
          return void client.end(
            `HTTP/1.1 ${statuses[active]}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`,
          )
        }
      }
      if (active === 'slow') setTimeout(() => store.write(chunk), slowMilliseconds)
      else if (active !== 'silent') store.write(chunk)
    })
    store.on('data', (chunk: Buffer) => {
      if (active === 'cut' && chunk.length > 1000) {
        client.write(chunk.subarray(0, chunk.length / 2), () => client.destroy())
      } else {
        client.write(chunk)
      }
    })
    store.on('end', () => client.end())
  }

  const server: Server = createServer(serve).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fail(next, method) {
      fault = next
      failing = method
      heads = []
    },
    count: () => heads.length,
    heads: () => heads,
    async stop() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}

const statuses: Partial<Record<BucketFault, string>> = {
  '500': '500 Internal Server Error',
  '503': '503 Service Unavailable',
  full: '507 Insufficient Storage',
}

import { setTimeout as sleep } from 'node:timers/promises'
import { type Environment, freePort, type Server, startServer, stopServer } from './program.ts'
import type { aRemoteUser, IssuedTokens } from './remote-user.ts'

type RemoteUser = Awaited<ReturnType<typeof aRemoteUser>>

/** Some svc processes that share one database and one DATA_DIR. */
export interface Processes {
  ports: number[]
  urls: string[]
  /** Stops and starts the processes, one after the other. */
  restartAll: () => Promise<void>
  stop: () => Promise<void>
}

/** Starts this many processes with the same environment, each on its own port. */
export async function startProcesses(count: number, environment: Environment): Promise<Processes> {
  const ports = await Promise.all(Array.from({ length: count }, freePort))
  const start = (port: number) => startServer({ HOST: '127.0.0.1', ...environment, PORT: String(port) })
  const servers: Server[] = await Promise.all(ports.map(start))
  return {
    ports,
    urls: servers.map(({ url }) => url),
    async restartAll() {
      for (const [i, server] of servers.entries()) {
        await stopServer(server)
        servers[i] = await start(ports[i] ?? 0)
      }
    },
    async stop() {
      await Promise.all(servers.map(stopServer))
    },
  }
}

/** The results of the requests of a load. */
export interface LoadCount {
  requests: number
  /** The reason for each failed request. */
  failures: string[]
  seconds: number
  slowestMs: number
  durations: { what: string; milliseconds: number }[]
}

/** The connections of a load. */
interface LoadOptions {
  connections: number
  pauseMs: number
  /** Opens the page of this turn. */
  visit?: ((url: string, turn: number) => Promise<Response>) | undefined
}

/**
 * Sends requests over this many connections while work runs. One connection pushes, about a quarter refresh, and the
 * others pull. With `visit`, one more opens pages. Each connection pauses after each response.
 */
export async function countDuring(
  url: string,
  user: RemoteUser,
  { connections, pauseMs, visit }: LoadOptions,
  work: () => Promise<void>,
): Promise<LoadCount> {
  const count: LoadCount = { requests: 0, failures: [], seconds: 0, slowestMs: 0, durations: [] }
  const start = performance.now()
  let isOver = false

  async function send(what: string, status: number, request: Promise<Response>): Promise<string | null> {
    const sent = performance.now()
    count.requests += 1
    try {
      const response = await request
      const body = await response.text()
      const milliseconds = performance.now() - sent
      count.durations.push({ what, milliseconds })
      count.slowestMs = Math.max(count.slowestMs, milliseconds)
      await sleep(pauseMs)
      if (response.status === status) return body
      count.failures.push(`${what}: ${response.status} ${body.slice(0, 200)}`)
    } catch (error) {
      count.failures.push(`${what}: ${String(error)} ${String((error as Error).cause)}`)
    }
    return null
  }

  async function pull(): Promise<void> {
    while (!isOver) await send('pull', 200, user.pull(url))
  }
  async function refresh(): Promise<void> {
    let tokens = await user.tokens(url)
    while (!isOver) {
      const body = await send('refresh', 200, user.refresh(url, tokens.refresh_token))
      if (body !== null) tokens = JSON.parse(body) as IssuedTokens
      await send('check', 200, user.check(url, tokens.access_token))
    }
  }
  async function push(): Promise<void> {
    for (let i = 0; !isOver; i += 1) await send('push', 201, user.push(url, `1.0.${i}`, 'acme/pushed'))
  }
  async function open(): Promise<void> {
    if (visit) for (let i = 0; !isOver; i += 1) await send('page', 200, visit(url, i))
  }

  const kinds = [
    refresh,
    push,
    open,
    ...Array.from({ length: connections - 2 }, (_, i) => (i % 4 === 3 ? refresh : pull)),
  ]
  const load = Promise.all(kinds.map((kind) => kind()))
  try {
    await Promise.race([work(), load])
  } finally {
    isOver = true
    await load
  }
  return { ...count, seconds: (performance.now() - start) / 1000 }
}

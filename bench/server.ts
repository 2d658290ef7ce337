import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { openSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { projectRoot } from '../src/config.ts'
import { openDatabase } from '../src/database/database.ts'
import { clusterPaths } from '../src/database/embedded-postgres/cluster.ts'
import { findEmbeddedPostgres } from '../src/database/embedded-postgres/embedded-postgres.ts'
import { readPostmaster } from '../src/database/embedded-postgres/postmaster.ts'
import { freePort } from '../test/support/program.ts'

/** A program that listens on a loopback port. */
export interface Listener {
  port: number
  pid: number
  stop: () => Promise<void>
}

/** A running svc, started like `npm start` does, and a pool on its database for test data. */
export interface Server extends Listener {
  baseUrl: string
  /** The process id of its embedded PostgreSQL. */
  postmasterPid: number
  db: pg.Pool
  connection: pg.PoolConfig
}

/**
 * Starts the built server with its own embedded PostgreSQL below the folder. The server logs to a file in the folder.
 * `settings` returns more environment variables for its port.
 */
export async function startServer(
  folder: string,
  settings: (port: number) => Record<string, string> = () => ({}),
): Promise<Server> {
  const port = await freePort()
  const dataDir = join(folder, 'data')
  const environment = {
    DATA_DIR: dataDir,
    HOST: '127.0.0.1',
    PORT: String(port),
    UPSTREAM_HTTP: 'true',
    UPSTREAM_PRIVATE_HOSTS: '127.0.0.1',
    ...settings(port),
  }
  const program = [join(projectRoot, 'dist/main.js')]
  const listener = await startListener(program, port, { environment, log: join(folder, 'svc.log') })
  const connection = await findEmbeddedPostgres(dataDir)
  const postmaster = await readPostmaster(clusterPaths(dataDir).cluster)
  if (!connection || !postmaster) throw new Error('the server runs without its PostgreSQL')
  // Remove the time limits of requests, because inserting the data takes longer.
  const db = openDatabase({ ...connection, statement_timeout: 0, query_timeout: 0 }, () => {})
  return {
    ...listener,
    baseUrl: `http://127.0.0.1:${port}`,
    postmasterPid: postmaster.pid,
    db,
    connection,
    async stop() {
      await db.end()
      await listener.stop()
    },
  }
}

/** Starts a Fastify server that only sends a constant, to measure the cost of the framework. */
export async function startHello(folder: string): Promise<Listener> {
  const port = await freePort()
  const program = ['--import', 'tsx', join(projectRoot, 'bench/hello.ts')]
  const environment = { PORT: String(port) }
  return startListener(program, port, { environment, log: join(folder, 'hello.log') })
}

/** Starts the baseline of the token endpoints on the PostgreSQL of a server. */
export async function startBare(
  folder: string,
  { connection, postmasterPid }: Server,
): Promise<Listener & { postmasterPid: number }> {
  const port = await freePort()
  const program = ['--import', 'tsx', join(projectRoot, 'bench/bare.ts')]
  const environment = { PORT: String(port), DATABASE: JSON.stringify(connection) }
  const listener = await startListener(program, port, { environment, log: join(folder, 'bare.log') })
  return { ...listener, postmasterPid }
}

/** Starts a relay to a port on this machine that is as slow as a server a round trip away. */
export async function startRelay(
  folder: string,
  targetPort: number,
  port: number,
  roundTripMs: number,
): Promise<Listener> {
  const program = ['--import', 'tsx', join(projectRoot, 'bench/relay.ts')]
  const environment = {
    PORT: String(port),
    TARGET_PORT: String(targetPort),
    ROUND_TRIP_MS: String(roundTripMs),
  }
  return startListener(program, port, { environment, log: join(folder, 'relay.log') })
}

interface Surroundings {
  environment?: Record<string, string>
  /** The file for the output of the program. */
  log: string
  command?: string
}

/** The started programs that have not ended. They end with this process, even if it throws. */
const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill()
})

/** Starts a program and waits until it responds on its port. Throws when the program ends before that. */
export async function startListener(
  words: string[],
  port: number,
  { environment = {}, log, command = process.execPath }: Surroundings,
): Promise<Listener> {
  const output = openSync(log, 'a')
  const { PATH, HOME } = process.env
  const child = spawn(command, words, {
    cwd: projectRoot,
    env: { PATH, HOME, ...environment },
    stdio: ['ignore', output, output],
  })
  running.add(child)
  child.once('exit', () => running.delete(child))
  const ended = once(child, 'exit').then(() => Promise.reject(new Error(`${command} ended: see ${log}`)))
  ended.catch(() => {})
  for (let attempt = 0; !(await isListening(port)); attempt += 1) {
    if (attempt === 1200) throw new Error(`${command} does not listen: see ${log}`)
    await Promise.race([sleep(50), ended])
  }
  return { port, pid: child.pid ?? 0, stop: () => stop(child) }
}

async function isListening(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/healthz`).then(
    async (response) => {
      await response.arrayBuffer()
      return true
    },
    () => false,
  )
}

async function stop(child: ChildProcess): Promise<void> {
  if (!running.has(child)) return
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  await exit
}

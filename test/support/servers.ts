import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { databaseUrl, type Environment, type Server, startServer } from './program.ts'

/** What a test file needs to start servers on one database and one DATA_DIR. */
export interface Servers {
  readonly dataDir: string
  /** Returns the environment of the servers, for commands and other programs. */
  environment: (more?: Environment) => Environment
  start: (more?: Environment, cwd?: string) => Promise<Server>
  /**
   * Returns the server that was started last and not killed, or starts one. For tests that take turns with it: pass
   * `afterAll`.
   */
  running: () => Promise<Server>
  /** Kills a server (SIGKILL), and waits until it has ended. */
  kill: (server: Server) => Promise<void>
}

/**
 * Lets a test file start servers. They are killed after each test. For tests that run at the same time, or that share a
 * server, pass `afterAll`: the end of one test must not kill the servers of another.
 */
export function useServers(
  { connection }: { connection: pg.PoolConfig },
  killAfter: (hook: () => Promise<void>) => void = afterEach,
): Servers {
  const servers: Server[] = []
  let dataDir: string
  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'svc-test-servers-'))
  })
  // vitest runs these hooks in reverse order: the servers end before their folder is removed.
  afterAll(() => rm(dataDir, { recursive: true }))
  killAfter(async () => {
    await Promise.all(servers.splice(0).map(kill))
  })

  const environment = (more: Environment = {}) => ({
    DATABASE_URL: databaseUrl(connection),
    DATA_DIR: dataDir,
    ...more,
  })
  async function start(more: Environment = {}, cwd?: string): Promise<Server> {
    const server = await startServer(environment(more), cwd)
    servers.push(server)
    return server
  }
  async function kill(server: Server): Promise<void> {
    if (servers.includes(server)) servers.splice(servers.indexOf(server), 1)
    server.process.kill('SIGKILL')
    await server.outcome
  }
  return {
    get dataDir() {
      return dataDir
    },
    environment,
    start,
    running: async () => servers.at(-1) ?? start(),
    kill,
  }
}

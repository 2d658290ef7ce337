import { spawn } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { clusterPaths, isAlive } from '../../src/database/embedded-postgres/cluster.ts'
import {
  type PostgresConnection,
  startEmbeddedPostgres,
} from '../../src/database/embedded-postgres/embedded-postgres.ts'
import { readPostmaster, stopPostmaster } from '../../src/database/embedded-postgres/postmaster.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The test run's own PostgreSQL. */
    postgres: PostgresConnection
  }
}

/** Folders carry the process id of their maker, so that a later run can tell a leftover. */
const prefix = 'svc-test-data-'

const guardProgram = fileURLToPath(new URL('./postgres-guard.ts', import.meta.url))

/** For throw-away clusters: speed instead of safety. */
export const fastSettings = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' }

/**
 * Starts a throw-away PostgreSQL for one test run, after ending what a killed run left behind. A guard process ends
 * this one as soon as our process is gone, so that neither Ctrl-C nor kill -9 leaves a PostgreSQL behind.
 */
export async function startTestPostgres(): Promise<{
  connection: PostgresConnection
  dataDir: string
  stop: () => Promise<void>
}> {
  await removeLeftovers()
  const guard = spawn(process.execPath, ['--import', 'tsx', guardProgram], {
    // In a session of its own, where Ctrl-C does not reach it. It waits for the end of its standard input.
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
  })
  guard.unref()
  ;(guard.stdin as Socket).unref()
  const dataDir = await makeDataDir()
  const postgres = await startEmbeddedPostgres({
    dataDir,
    settings: {
      ...fastSettings,
      max_connections: '200',
      max_wal_size: '4GB',
      wal_level: 'minimal',
      max_wal_senders: '0',
    },
  })
  return {
    connection: postgres.connection,
    dataDir,
    async stop() {
      await postgres.stop()
      await removeDataDir(dataDir)
      guard.kill('SIGKILL')
    },
  }
}

/** An empty DATA_DIR, open to its owner only. */
export async function makeDataDir(): Promise<string> {
  return mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`))
}

/** Removes a DATA_DIR together with the PostgreSQL that may still run in it. */
export async function removeDataDir(dataDir: string): Promise<void> {
  const running = await readPostmaster(clusterPaths(dataDir).cluster)
  if (running?.running) await stopPostmaster(running, 5)
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
}

/** Removes the DATA_DIRs whose makers are gone, together with the PostgreSQLs that still run in them. */
export async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(prefix) || isAlive(Number.parseInt(name.slice(prefix.length), 10))) continue
    // Another user's leftover is not ours to read, nor to remove.
    await removeDataDir(join(tmpdir(), name)).catch(() => {})
  }
}

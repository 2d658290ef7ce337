import { spawn } from 'node:child_process'
import { statfsSync } from 'node:fs'
import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { freemem, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { clusterPaths, clusterUser, isAlive } from '../../src/database/embedded-postgres/cluster.ts'
import {
  type PostgresConnection,
  startEmbeddedPostgres,
} from '../../src/database/embedded-postgres/embedded-postgres.ts'
import { readPostmaster, stopPostmaster } from '../../src/database/embedded-postgres/postmaster.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The PostgreSQL of the test run. */
    postgres: PostgresConnection
  }
}

/** Folders contain the process id of their creator, so that a later run can recognize leftovers. */
const prefix = 'svc-test-data-'

/** A file system in memory. */
const memory = '/dev/shm'
/** The free memory that temporary clusters may need. */
const memoryBytes = 4 * 1024 ** 3

/**
 * Returns the folder for temporary clusters: in memory, if there is enough. Each test file creates and drops a database
 * of three hundred files. On a disk without a journal, that took four fifths of a second, nearly all of it in the kernel.
 */
function chooseParent(): string {
  try {
    const { bavail, bsize } = statfsSync(memory)
    return Math.min(bavail * bsize, freemem()) > memoryBytes ? memory : tmpdir()
  } catch {
    return tmpdir()
  }
}

const guardProgram = fileURLToPath(new URL('./postgres-guard.ts', import.meta.url))

/** Settings of temporary clusters: speed instead of safety. */
export const fastSettings = { fsync: 'off', full_page_writes: 'off', synchronous_commit: 'off' }

/**
 * Starts a temporary PostgreSQL for one test run. First it stops those that a killed run left behind. A guard process
 * stops this one when our process ends, so neither Ctrl-C nor kill -9 leaves a PostgreSQL behind.
 */
export async function startTestPostgres(): Promise<{
  connection: PostgresConnection
  dataDir: string
  stop: () => Promise<void>
}> {
  await removeLeftovers()
  const guard = spawn(process.execPath, ['--import', 'tsx', guardProgram], {
    // The guard has its own session, which Ctrl-C does not reach. It waits for the end of its standard input.
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
      max_wal_size: '1GB',
      wal_level: 'minimal',
      max_wal_senders: '0',
      // It reads tables, too, which tests that count reads would notice.
      autovacuum: 'off',
    },
  })
  await trustOwner(dataDir)
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

/**
 * Lets the owner of the cluster connect without a password: to prove one takes both sides as long as the rest of a
 * connection, and a test run has thousands. Other users cannot open the folder of the socket. Other roles still need theirs.
 */
async function trustOwner(dataDir: string): Promise<void> {
  const { cluster } = clusterPaths(dataDir)
  await writeFile(
    join(cluster, 'pg_hba.conf'),
    `local all ${clusterUser} trust\nlocal all all scram-sha-256\n`,
  )
  const postmaster = await readPostmaster(cluster)
  if (postmaster?.running) process.kill(postmaster.pid, 'SIGHUP')
}

/** Creates an empty DATA_DIR that only its owner can open. */
export async function makeDataDir(): Promise<string> {
  return mkdtemp(join(chooseParent(), `${prefix}${process.pid}-`))
}

/** Removes a DATA_DIR together with the PostgreSQL that may still run in it. */
export async function removeDataDir(dataDir: string): Promise<void> {
  const running = await readPostmaster(clusterPaths(dataDir).cluster)
  if (running?.running) await stopPostmaster(running, 5)
  await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
}

/** Removes the DATA_DIRs whose creators have ended, and stops the PostgreSQLs that still run in them. */
export async function removeLeftovers(): Promise<void> {
  for (const parent of [memory, tmpdir()]) {
    for (const name of await readdir(parent).catch(() => [])) {
      if (!name.startsWith(prefix) || isAlive(Number.parseInt(name.slice(prefix.length), 10))) continue
      // This process cannot read or remove a leftover of another user.
      await removeDataDir(join(parent, name)).catch(() => {})
    }
  }
}

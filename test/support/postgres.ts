import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { clusterPaths } from '../../src/embedded-postgres/layout.ts'
import { isAlive, readPostmaster, stopPostmaster } from '../../src/embedded-postgres/postmaster.ts'
import { type PostgresConnection, startEmbeddedPostgres } from '../../src/embedded-postgres.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The test run's own PostgreSQL. */
    postgres: PostgresConnection
  }
}

/** Folders carry the process id of their test run, so that the next run can tell a leftover. */
const prefix = 'svc-test-run-'

/** Starts a throw-away PostgreSQL for one test run. It trades safety for speed: nothing survives a crash. */
export async function startTestPostgres(): Promise<{
  connection: PostgresConnection
  stop: () => Promise<void>
}> {
  await removeLeftovers()
  const dataDir = await mkdtemp(join(tmpdir(), `${prefix}${process.pid}-`))
  const postgres = await startEmbeddedPostgres({
    dataDir,
    settings: {
      fsync: 'off',
      full_page_writes: 'off',
      synchronous_commit: 'off',
      max_connections: '200',
      max_wal_size: '4GB',
      wal_level: 'minimal',
      max_wal_senders: '0',
    },
  })
  return {
    connection: postgres.connection,
    async stop() {
      await postgres.stop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** Ends what a killed test run left behind. */
async function removeLeftovers(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(prefix) || isAlive(Number.parseInt(name.slice(prefix.length), 10))) continue
    const dataDir = join(tmpdir(), name)
    const { cluster } = clusterPaths(dataDir)
    // Another user's leftover is not ours to read, nor to remove.
    const orphan = await readPostmaster(cluster).catch(() => null)
    if (orphan?.running) await stopPostmaster(cluster, orphan, 5)
    await rm(dataDir, { recursive: true, force: true }).catch(() => {})
  }
}

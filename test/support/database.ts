import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import './postgres.ts'
import { untilTrue } from './until.ts'

/** The migrated database that every test file clones. */
export const template = 'svc_template'

/**
 * How long a transaction waits for a lock: longer than a busy machine takes until all requests of a test wait for one that
 * the test holds.
 */
const patientMilliseconds = 120_000

/**
 * Creates a database for one test file, so that races can be tested: a copy of the migrated one, or of `source`
 * (`template1` is empty).
 */
export function useDatabase(source = template): { readonly db: pg.Pool; readonly connection: pg.PoolConfig } {
  const server = inject('postgres')
  const database = `test_${randomBytes(6).toString('hex')}`
  const connection: pg.PoolConfig = { ...server, database, max: 40 }
  let db: pg.Pool
  beforeAll(async () => {
    await copyDatabase(server, source, database)
    // Like those of the server (`openDatabase`), its connections send statements without waiting.
    db = new pg.Pool({ ...connection, pipeline: true, lock_timeout: patientMilliseconds })
  })
  afterAll(async () => {
    await db.end()
    await dropDatabase({ ...server, database })
  })
  return {
    connection,
    get db() {
      return db
    },
  }
}

/** The pools of the servers' own databases. A new connection for each statement would take longer than most of them. */
const ownDatabases = new Map<string, pg.Pool>()

/** Returns the pool of a server's own database, whose one connection this process keeps. */
function ownDatabaseOf(server: pg.ClientConfig): pg.Pool {
  const place = `${server.host}:${server.port}`
  const known = ownDatabases.get(place)
  if (known) return known
  const own = { database: 'postgres', max: 1, idleTimeoutMillis: 0, allowExitOnIdle: true }
  const pool = new pg.Pool({ ...server, ...own })
  // The server stops before the process ends.
  pool.on('error', () => {})
  ownDatabases.set(place, pool)
  return pool
}

/** Runs one statement on the server's own database. */
export async function onServer(server: pg.ClientConfig, statement: string): Promise<void> {
  await ownDatabaseOf(server).query(statement)
}

/** Creates a database: a copy of another one, when the last connection of that has ended. */
export async function copyDatabase(server: pg.ClientConfig, source: string, database: string): Promise<void> {
  await untilUnused(server, source)
  // The other strategy writes each page to the log, too, which takes more than twice the time.
  await onServer(server, `create database ${database} template ${source} strategy file_copy`)
}

/** Drops a database when its last connection has ended. */
export async function dropDatabase({ database = '', ...server }: pg.ClientConfig): Promise<void> {
  await untilUnused(server, database)
  await onServer(server, `drop database ${database}`)
}

/**
 * Waits until a database has no connection. Those of a pool and of killed processes end some time later, and PostgreSQL
 * itself waits for them only 5 seconds.
 */
async function untilUnused(server: pg.ClientConfig, database: string): Promise<void> {
  const own = ownDatabaseOf(server)
  const listConnections = async () =>
    (await own.query<{ query: string }>('select query from pg_stat_activity where datname = $1', [database]))
      .rows
  await untilTrue(
    async () => (await listConnections()).length === 0,
    async () => `${database} is still in use: ${JSON.stringify(await listConnections())}`,
  )
}

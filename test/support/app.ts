import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import { afterAll, beforeAll } from 'vitest'
import { type Config, readConfig } from '../../src/config.ts'
import { kinds, type OutboundBounds } from '../../src/outbound/kinds.ts'
import { openOutbound } from '../../src/outbound/outbound.ts'
import { buildApp } from '../../src/web/server/app.ts'
import { openLog } from '../../src/web/server/log.ts'
import { contexts } from './actors.ts'
import { useDatabase } from './database.ts'

/** A running svc for one test file, with its own database and log. */
export interface TestApp {
  readonly app: FastifyInstance
  readonly db: pg.Pool
  /** The settings with which another process connects to the same database. */
  readonly connection: pg.PoolConfig
  readonly config: Config
  /** The bounds of its requests to other servers, if they are not those of svc. */
  readonly bounds: OutboundBounds | undefined
  /** All log lines so far. */
  log(): string
}

/** The bounds of requests to other servers, with more time than a busy machine takes. */
export const patientBounds: OutboundBounds = boundsWithin(120_000)

/** Returns the bounds of requests to other servers with this time for each. */
export function boundsWithin(milliseconds: number): OutboundBounds {
  const all = Object.entries(kinds).map(([kind, bounds]) => [kind, { ...bounds, milliseconds }])
  return Object.fromEntries(all) as OutboundBounds
}

/**
 * Builds the whole server on a fresh database. `environment` overrides the configuration's defaults, and `bounds` those of
 * requests to other servers.
 */
export function useApp(environment: Record<string, string> = {}, bounds?: OutboundBounds): TestApp {
  const database = useDatabase()
  const dataDir = mkdtempSync(join(tmpdir(), 'svc-test-volume-'))
  const own = { BASE_URL: 'http://svc.test', DATA_DIR: dataDir, LOG_LEVEL: 'info' }
  const config = readConfig({ ...own, ...environment })
  const stream = new PassThrough()
  const lines: string[] = []
  stream.on('data', (chunk: Buffer) => lines.push(chunk.toString()))
  let app: FastifyInstance
  beforeAll(async () => {
    const context = { config, db: database.db }
    app = await buildApp(context, openLog(config.logLevel, stream), openOutbound(config, undefined, bounds))
    contexts.set(app, context)
    await app.ready()
  })
  afterAll(async () => {
    await app.close()
    rmSync(dataDir, { recursive: true })
  })
  return {
    config,
    bounds,
    connection: database.connection,
    log: () => lines.join(''),
    get app() {
      return app
    },
    get db() {
      return database.db
    },
  }
}

/**
 * A second process beside a test's app. Both have the same database, volume and bounds, but separate memory. `options` are
 * those of its connections.
 */
export function useAnotherProcess(
  t: TestApp,
  options: pg.PoolConfig = {},
): { readonly app: FastifyInstance } {
  let app: FastifyInstance
  let db: pg.Pool
  beforeAll(async () => {
    db = new pg.Pool({ ...t.connection, pipeline: true, ...options })
    const context = { config: t.config, db }
    const outbound = openOutbound(t.config, undefined, t.bounds)
    app = await buildApp(context, openLog('silent', new PassThrough()), outbound)
    contexts.set(app, context)
    await app.ready()
  })
  afterAll(async () => {
    await app.close()
    await db.end()
  })
  return {
    get app() {
      return app
    },
  }
}

import { access, constants } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { pendingMigrations, readSchema } from '../database/migrate.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'
import { measureDisk } from '../domain/disk-space.ts'
import { openArchiveStore } from '../registry/archives/store-owner.ts'

/**
 * The maximum duration of the checks of `/readyz`. With the response it stays below 2 s, a common health check timeout.
 */
const patienceSeconds = 1.8
/** Shorter than the limit of all checks, so that the response can name the store as the reason. */
const storePatienceSeconds = 1.5
/** With less free space a disk counts as full: uploads fail, and an embedded PostgreSQL soon stops. */
const minFreeBytes = 16 * 1024 ** 2

/**
 * `/healthz`: the process runs. `/readyz`: database, volume and archive store respond, the disk is not full, and the
 * migrations and SQL functions that existed when the process started are applied (DESIGN §4). The process does not need
 * migrations that are added later.
 */
export async function healthRoutes(app: FastifyInstance, { config, db }: AppContext) {
  const schema = await readSchema(await findMigrationsDir(config))
  const archives = await openArchiveStore(config)
  /** Whether the store had a database id before. */
  let hadOwner = false

  app.get('/healthz', { logLevel: 'warn' }, async () => ({ status: 'ok' }))

  app.get('/readyz', { logLevel: 'warn' }, async (request, reply) => {
    const reason = await Promise.race([findObstacle(), silence()]).catch((error: unknown) => {
      request.log.error(error, 'the database or the volume does not respond')
      return 'the database or the volume does not respond'
    })
    if (reason === null) return { status: 'ready' }
    return reply.code(503).send({ status: 'not ready', reason })
  })

  /** Returns why requests cannot be served. Null when they can. */
  async function findObstacle(): Promise<string | null> {
    await access(config.dataDir, constants.W_OK)
    const { freeBytes } = (await measureDisk(config.dataDir)) ?? { freeBytes: minFreeBytes }
    if (freeBytes < minFreeBytes) return `the disk of DATA_DIR is full: ${freeBytes} bytes are free`
    const [pending, storeObstacle] = await Promise.all([pendingMigrations(db, schema), findStoreObstacle()])
    return pending.length === 0 ? storeObstacle : `migrations to apply: ${pending.join(', ')}`
  }

  /** Returns why archives cannot be read, or null. A bucket can be unreachable while the folder DATA_DIR works. */
  async function findStoreObstacle(): Promise<string | null> {
    const reading = archives.readOwner().then(
      (owner) => ({ owner }),
      () => null,
    )
    const read = await Promise.race([reading, sleep(storePatienceSeconds * 1000, null, { ref: false })])
    if (read === null) return 'the archive store does not respond'
    if (read.owner !== null) hadOwner = true
    else if (hadOwner) return 'the archive store has lost its file archives/database-id: is it still mounted?'
    return null
  }
}

/** Rejects when the database or the volume does not respond in time. */
async function silence(): Promise<never> {
  await sleep(patienceSeconds * 1000, null, { ref: false })
  throw new Error(`no response within ${patienceSeconds} s`)
}

import { access, constants } from 'node:fs/promises'
import type { FastifyBaseLogger, FastifyInstance } from 'fastify'
import { openArchiveStore } from '../../archives/store-owner.ts'
import type { AppContext } from '../../context.ts'
import { isReadOnly } from '../../database/installation.ts'
import { pendingMigrations, readSchema } from '../../database/migrate.ts'
import { findMigrationsDir } from '../../database/operator-migrations.ts'
import { measureDisk } from '../../domain/disk-space.ts'
import { afterPatience } from '../../domain/time-slices.ts'

/** The maximum duration of each check of `/readyz`. The response then takes less than 2 s, a common timeout of probes. */
const patienceSeconds = 1.5
/** With less free space a disk counts as full, also without DISK_RESERVE_BYTES: an embedded PostgreSQL soon stops. */
const minFreeBytes = 16 * 1024 ** 2

/**
 * `/healthz`: the process runs. `/readyz`: database and archive store respond, the database can be written, and the
 * migrations and SQL functions that existed when the process started are applied (CONTRACT 4.8). The process does not
 * need migrations that are added later. A process that only cannot store archives is degraded, with status 200: its
 * pulls work.
 */
export async function healthRoutes(app: FastifyInstance, context: AppContext) {
  const check = await openHealth(context)

  app.get('/healthz', { logLevel: 'warn' }, async () => ({ status: 'ok' }))

  app.get('/readyz', { logLevel: 'warn' }, async ({ log }, reply) => {
    const { database, store, volume } = await check(log)
    const isReady = database === null && store === null
    if (isReady && volume === null) return { status: 'ready' }
    const reasons = [database, store, volume].filter((reason) => reason !== null)
    const status = isReady ? 'degraded' : 'not ready'
    return reply.code(isReady ? 200 : 503).send({ status, reason: reasons.join('; ') })
  })
}

/** Why a part of the server does not work, as words for its operator; null for each part that works. */
export interface Health {
  database: string | null
  /** Where archives are read. */
  store: string | null
  /** Where uploads are received. */
  volume: string | null
}

/** Returns the check of the parts of the server. It takes at most 1.5 s, and throws nothing. */
export async function openHealth({
  config,
  db,
}: AppContext): Promise<(log: FastifyBaseLogger) => Promise<Health>> {
  const schema = await readSchema(await findMigrationsDir(config))
  const archives = await openArchiveStore(config)
  /** Whether the store has ever had a database id. Since the start of the server it has one. */
  let hadOwner = (await archives.readOwner().catch(() => null)) !== null

  return async (log) => {
    const [database, store, volume] = await Promise.all([
      inTime(findDatabaseObstacle(), 'the database does not respond', log),
      inTime(findStoreObstacle(), 'the archive store does not respond', log),
      inTime(findVolumeObstacle(), 'DATA_DIR does not respond: uploads fail', log),
    ])
    return { database, store, volume }
  }

  /** Returns why nothing can be changed. Null when the database works. */
  async function findDatabaseObstacle(): Promise<string | null> {
    const [pending, cannotWrite] = await Promise.all([pendingMigrations(db, schema), isReadOnly(db)])
    if (cannotWrite) return 'the database is read-only'
    return pending.length === 0 ? null : `migrations to apply: ${pending.join(', ')}`
  }

  /** Returns why archives cannot be read, or null. A bucket can be unreachable while the folder DATA_DIR works. */
  async function findStoreObstacle(): Promise<string | null> {
    const owner = await archives.readOwner()
    if (owner !== null) hadOwner = true
    else if (hadOwner) return 'the archive store has lost its file archives/database-id: is it still mounted?'
    return null
  }

  /** Returns why no archives can be received, or null. Also with a bucket, uploads go through DATA_DIR. */
  async function findVolumeObstacle(): Promise<string | null> {
    try {
      await access(config.dataDir, constants.W_OK)
    } catch (error) {
      return `DATA_DIR cannot be written (${(error as NodeJS.ErrnoException).code}): uploads get 503`
    }
    const disk = await measureDisk(config.dataDir)
    if (disk === null || disk.freeBytes >= Math.max(config.storage.reserveBytes, minFreeBytes)) return null
    return `the disk of DATA_DIR is full: ${disk.freeBytes} bytes are free, and uploads get 507`
  }
}

/** Returns the result of a check, or `silence` when it fails or takes too long. */
async function inTime(
  check: Promise<string | null>,
  silence: string,
  log: FastifyBaseLogger,
): Promise<string | null> {
  const failed = check.catch((error: unknown) => {
    log.error({ err: error }, silence)
    return silence
  })
  return Promise.race([failed, afterPatience(patienceSeconds * 1000, silence)])
}

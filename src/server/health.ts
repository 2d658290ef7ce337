import { access, constants } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { pendingMigrations, readSchema } from '../database/migrate.ts'
import { findMigrationsDir } from '../database/operator-migrations.ts'

/** Shorter than the usual timeout of health checks. */
const patienceSeconds = 2

/**
 * `/healthz`: the process lives. `/readyz`: database and volume respond, and the migrations and SQL functions that
 * existed when the process started are applied (DESIGN §4). The process does not need files that are written later;
 * `svc migrate` applies them.
 */
export async function healthRoutes(app: FastifyInstance, { config, db }: AppContext) {
  const schema = await readSchema(await findMigrationsDir(config))

  app.get('/healthz', { logLevel: 'warn' }, async () => ({ status: 'ok' }))

  app.get('/readyz', { logLevel: 'warn' }, async (request, reply) => {
    const reason = await Promise.race([findObstacle(), silence()]).catch((error: unknown) => {
      request.log.error(error, 'the database or the volume does not answer')
      return 'the database or the volume does not answer'
    })
    if (reason === null) return { status: 'ready' }
    return reply.code(503).send({ status: 'not ready', reason })
  })

  /** Why no request can be served; null when all is well. */
  async function findObstacle(): Promise<string | null> {
    await access(config.dataDir, constants.W_OK)
    const pending = await pendingMigrations(db, schema)
    return pending.length === 0 ? null : `migrations to apply: ${pending.join(', ')}`
  }
}

/** Rejects for a database or a volume that does not answer in time. */
async function silence(): Promise<never> {
  await sleep(patienceSeconds * 1000, null, { ref: false })
  throw new Error(`no answer within ${patienceSeconds} s`)
}

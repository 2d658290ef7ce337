import type { FastifyInstance } from 'fastify'
import type { Parts } from './app.ts'
import { pendingMigrations } from './migrate.ts'

/** `/healthz`: the process lives. `/readyz`: the database answers and its migrations are applied (DESIGN §4). */
export async function healthRoutes(app: FastifyInstance, { config, db }: Parts) {
  app.get('/healthz', { logLevel: 'warn' }, async () => ({ status: 'ok' }))

  app.get('/readyz', { logLevel: 'warn' }, async (request, reply) => {
    try {
      const pending = await pendingMigrations(db, config.migrationsDir)
      if (pending.length === 0) return { status: 'ready' }
      return reply
        .code(503)
        .send({ status: 'not ready', reason: `migrations to apply: ${pending.join(', ')}` })
    } catch (error) {
      request.log.error(error, 'the database does not answer')
      return reply.code(503).send({ status: 'not ready', reason: 'the database does not answer' })
    }
  })
}

import type { FastifyInstance } from 'fastify'

/**
 * Adds a scope: its hooks, parsers and error handler are for the routes of `addRoutes` alone. It has a name, because Fastify
 * compares a plugin without one with every loaded module, twice.
 */
export async function addScope<Scope extends FastifyInstance>(
  parent: Scope,
  name: string,
  addRoutes: (scope: Scope) => Promise<unknown>,
  prefix = '',
): Promise<void> {
  async function plugin(scope: FastifyInstance): Promise<void> {
    await addRoutes(scope as Scope)
  }
  await parent.register(Object.assign(plugin, { [Symbol.for('fastify.display-name')]: name }), { prefix })
}

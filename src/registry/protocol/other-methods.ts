import type { FastifyInstance } from 'fastify'
import { errcode, RegistryError } from '../errors.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** Adds the routes of `addRoutes`, and at each of their addresses refuses the other methods with 405 and Allow. */
export async function refuseOtherMethods(
  scope: FastifyInstance,
  addRoutes: () => Promise<void>,
): Promise<void> {
  const allowed = new Map<string, Set<string>>()
  let isOpen = true
  scope.addHook('onRoute', (route) => {
    if (!isOpen) return
    const known = allowed.get(route.routePath) ?? new Set()
    for (const method of [route.method].flat()) known.add(method)
    allowed.set(route.routePath, known)
  })
  await addRoutes()
  isOpen = false
  for (const [url, known] of allowed) {
    scope.route({
      method: methods.filter((method) => !known.has(method)),
      url,
      onRequest: async (_request, reply) => {
        reply.header('allow', [...known].join(', '))
        throw new RegistryError(errcode.unimplemented, 'method not allowed', { status: 405 })
      },
      handler: async () => undefined,
    })
  }
}

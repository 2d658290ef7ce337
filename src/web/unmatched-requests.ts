import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'

/**
 * Adds the routes of `addRoutes`. At each of their URLs, every other method gets 405 with an Allow header, before a
 * body is read. `refusal` creates the scope's own error from the value of that header.
 */
export async function refuseOtherMethods(
  scope: FastifyInstance,
  refusal: (allow: string) => Error,
  addRoutes: () => Promise<unknown>,
): Promise<void> {
  const methodsByUrl = new Map<string, Set<string>>()
  let isCollecting = true
  scope.addHook('onRoute', ({ method, routePath }) => {
    if (!isCollecting) return
    const methods = methodsByUrl.get(routePath) ?? new Set()
    for (const one of [method].flat()) methods.add(one)
    methodsByUrl.set(routePath, methods)
  })
  await addRoutes()
  isCollecting = false
  for (const [url, methods] of methodsByUrl) {
    const allow = [...methods].sort().join(', ')
    const refuse = async (_request: FastifyRequest, reply: FastifyReply) => {
      reply.header('allow', allow)
      throw refusal(allow)
    }
    const others = scope.supportedMethods.filter((method) => !methods.has(method))
    scope.route({ method: others, url, onRequest: refuse, handler: refuse, exposeHeadRoute: false })
  }
}

/**
 * Rejects every URL below the scope's prefix that has no route, before a body is read. It adds routes instead of a
 * not-found handler, because the pages' route `/:group/:name` would match these URLs first.
 */
export function refuseOtherPaths(scope: FastifyInstance, refusal: () => Error): void {
  const refuse = async () => {
    throw refusal()
  }
  for (const url of ['/', '/*']) scope.all(url, { onRequest: refuse, handler: refuse })
}

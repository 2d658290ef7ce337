import type { FastifyInstance } from 'fastify'

/**
 * Returns 405, before a body is read, to every method that the route does not have. `refusal` makes the scope's own
 * error from the value of the Allow header.
 */
export function refuseOtherMethods(
  scope: FastifyInstance,
  url: string,
  allowed: readonly string[],
  refusal: (allow: string) => Error,
): void {
  const refuse = async () => {
    throw refusal(allowed.join(', '))
  }
  const method = scope.supportedMethods.filter((one) => !allowed.includes(one))
  scope.route({ method, url, onRequest: refuse, handler: refuse, exposeHeadRoute: false })
}

/**
 * Adds routes, and refuses the other methods at each of their URLs, as `refuseOtherMethods` does. Encapsulated scopes
 * within `addRoutes` count too.
 */
export async function addRoutesAndRefuseOthers(
  scope: FastifyInstance,
  addRoutes: () => Promise<void>,
  refusal: (allow: string) => Error,
): Promise<void> {
  const allowed = new Map<string, Set<string>>()
  let isAdding = true
  scope.addHook('onRoute', ({ method, routePath }) => {
    if (!isAdding) return
    allowed.set(routePath, new Set([...(allowed.get(routePath) ?? []), ...[method].flat()]))
  })
  await addRoutes()
  isAdding = false
  for (const [url, methods] of allowed) refuseOtherMethods(scope, url, [...methods], refusal)
}

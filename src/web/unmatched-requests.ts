import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import findMyWay from 'find-my-way'

/** No URL that Node accepts is longer. Each scope limits its parameters and sends its own error. */
export const maxParamLength = 16_384

/**
 * Adds the routes of `addRoutes`. At each of their URLs, every other method gets 405 with an Allow header, before a
 * body is read. `refusal` creates the scope's own error from the value of that header.
 *
 * A scope with many URLs, which gives its error for all others in `nothingHere`, has one route for each method that it has
 * nowhere: one at each URL would take a twentieth of the time of a start.
 */
export async function refuseOtherMethods(
  scope: FastifyInstance,
  refusal: (allow: string) => Error,
  addRoutes: () => Promise<unknown>,
  nothingHere: (() => Error) | null = null,
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
  const used = new Set([...methodsByUrl.values()].flatMap((methods) => [...methods]))
  const unused = nothingHere === null ? [] : scope.supportedMethods.filter((method) => !used.has(method))
  for (const [url, methods] of methodsByUrl) {
    const allow = [...methods].sort().join(', ')
    const refuse = async (_request: FastifyRequest, reply: FastifyReply) => {
      reply.header('allow', allow)
      throw refusal(allow)
    }
    const others = scope.supportedMethods.filter((method) => !methods.has(method) && !unused.includes(method))
    scope.route({ method: others, url, onRequest: refuse, handler: refuse, exposeHeadRoute: false })
  }
  if (nothingHere === null) return
  const methodsAt = openMethods(scope.prefix, methodsByUrl)
  addRefusal(scope, unused, async (request, reply) => {
    const methods = methodsAt(request)
    if (methods === undefined) throw nothingHere()
    const allow = [...methods].sort().join(', ')
    reply.header('allow', allow)
    throw refusal(allow)
  })
}

/**
 * Returns a function that finds the methods of a scope at the URL of a request, with the rules of Fastify's own router.
 * Few requests need it, so it is built for the first one.
 */
function openMethods(
  prefix: string,
  methodsByUrl: ReadonlyMap<string, Set<string>>,
): (request: FastifyRequest) => Set<string> | undefined {
  let router: ReturnType<typeof findMyWay> | undefined
  return ({ url }) => {
    if (router === undefined) {
      router = findMyWay({ maxParamLength })
      for (const [pattern, methods] of methodsByUrl) router.on('GET', prefix + pattern, () => {}, methods)
    }
    return router.find('GET', url)?.store as Set<string> | undefined
  }
}

/**
 * Rejects every URL below the scope's prefix that has no route, before a body is read. It adds routes instead of a
 * not-found handler, because the pages' route `/:group/:name` would match these URLs first.
 */
export function refuseOtherPaths(scope: FastifyInstance, refusal: () => Error): void {
  addRefusal(scope, scope.supportedMethods, async () => {
    throw refusal()
  })
}

/** Adds the refusal at all URLs of a scope without a more specific route, for those of the methods that have none yet. */
function addRefusal(
  scope: FastifyInstance,
  methods: readonly string[],
  refuse: (request: FastifyRequest, reply: FastifyReply) => Promise<never>,
): void {
  for (const url of ['/', '/*']) {
    const free = methods.filter(
      (method) => !scope.hasRoute({ method: method as HTTPMethods, url: scope.prefix + url }),
    )
    scope.route({
      method: free as HTTPMethods[],
      url,
      onRequest: refuse,
      handler: refuse,
      exposeHeadRoute: false,
    })
  }
}

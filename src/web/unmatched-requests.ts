import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify'
import findMyWay from 'find-my-way'

/** No URL that Node accepts is longer. Each scope limits its parameters and sends its own error. */
export const maxParamLength = 16_384

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Whether the route only refuses requests. */
    isRefusal?: true
  }
}

/** The errors for requests without a route. `wrongMethod` gets the value of the Allow header. */
interface Refusals<Refusal extends Error> {
  wrongMethod: (allow: string) => Refusal
  nothingHere: () => Refusal
}

/** URL patterns, each with its methods. */
type MethodsByUrl = Map<string, Set<string>>

/** The routes of some scopes with the same errors. */
export interface KnownRoutes<Refusal extends Error> {
  readonly methodsByUrl: ReadonlyMap<string, ReadonlySet<string>>
  /** Notes the routes that the scope adds from now on. */
  note: (scope: FastifyInstance) => void
  /** Returns the error for a request without a route. Adds the Allow header if its URL has other methods. */
  refuse: (reply: FastifyReply) => Refusal
}

/** Opens a list of routes. It finds the methods of a URL with the rules of Fastify's own router. */
export function openKnownRoutes<Refusal extends Error>({
  wrongMethod,
  nothingHere,
}: Refusals<Refusal>): KnownRoutes<Refusal> {
  const methodsByUrl: MethodsByUrl = new Map()
  // Few requests need it, so it is built for the first one.
  let router: ReturnType<typeof findMyWay> | undefined

  function openRouter() {
    const opened = findMyWay({ maxParamLength })
    for (const [url, methods] of methodsByUrl) opened.on('GET', url, () => {}, formatAllow(methods))
    return opened
  }

  return {
    methodsByUrl,
    note: (scope) => noteRoutes(scope, methodsByUrl),
    refuse(reply) {
      router ??= openRouter()
      const allow = router.find('GET', reply.request.url)?.store as string | undefined
      if (allow === undefined) return nothingHere()
      reply.header('allow', allow)
      return wrongMethod(allow)
    },
  }
}

/**
 * Adds the routes of `addRoutes`. At each of their URLs, every other method gets 405 with an Allow header, before a
 * body is read. It is for few URLs: it adds a route at each one.
 */
export async function refuseOtherMethods(
  scope: FastifyInstance,
  wrongMethod: (allow: string) => Error,
  addRoutes: () => Promise<unknown>,
): Promise<void> {
  const methodsByUrl: MethodsByUrl = new Map()
  noteRoutes(scope, methodsByUrl)
  await addRoutes()
  for (const [url, methods] of methodsByUrl) {
    const allow = formatAllow(methods)
    const others = scope.supportedMethods.filter((method) => !methods.has(method))
    addRefusal(scope, url, others, (reply) => {
      reply.header('allow', allow)
      return wrongMethod(allow)
    })
  }
}

/**
 * Adds the routes of `addRoutes`, which are below `path`. All other requests there are refused before a body is read: with
 * 405 and an Allow header if the URL has other methods. It adds routes instead of a not-found handler, because the pages'
 * route `/:group/:name` would match these URLs first.
 */
export async function refuseAllOthers(
  scope: FastifyInstance,
  refusals: Refusals<Error>,
  addRoutes: () => Promise<unknown>,
  path = scope.prefix,
): Promise<void> {
  const routes = openKnownRoutes(refusals)
  routes.note(scope)
  await addRoutes()
  refuseMistaken(scope, routes)
  for (const url of [path, `${path}/*`]) {
    const free = scope.supportedMethods.filter(
      (method) => !scope.hasRoute({ method: method as HTTPMethods, url }),
    )
    addRefusal(scope, url, free, routes.refuse)
  }
}

/**
 * Refuses the requests with a wrong method that the route of another URL would match: without it, `GET /logout` would be the
 * page of a group. No route matches the others. A refusal of each method at each URL would take a quarter of the time in
 * which an app is built.
 */
export function refuseMistaken(scope: FastifyInstance, routes: KnownRoutes<Error>): void {
  const patterns = [...routes.methodsByUrl].map(([url, methods]) => ({
    url,
    segments: url.split('/'),
    methods,
  }))
  for (const { url, segments, methods } of patterns) {
    const others = patterns.filter((other) => mayShareUrl(other.segments, segments))
    const mistaken = new Set(others.flatMap((other) => [...other.methods]).filter((one) => !methods.has(one)))
    if (mistaken.size > 0) addRefusal(scope, url, [...mistaken], routes.refuse)
  }
}

/** Returns whether a URL can match both patterns. A parameter counts as any segment. */
function mayShareUrl(one: readonly string[], other: readonly string[]): boolean {
  if (one.length !== other.length) return false
  return one.every((segment, index) => {
    const opposite = other[index] as string
    return segment === opposite || segment.includes(':') || opposite.includes(':')
  })
}

function noteRoutes(scope: FastifyInstance, methodsByUrl: MethodsByUrl): void {
  scope.addHook('onRoute', ({ method, url, config }) => {
    if (config?.isRefusal) return
    const methods = methodsByUrl.get(url) ?? new Set()
    for (const one of [method].flat()) methods.add(one)
    methodsByUrl.set(url, methods)
  })
}

function formatAllow(methods: ReadonlySet<string>): string {
  return [...methods].sort().join(', ')
}

/** Adds a route that refuses requests with these methods. `url` includes the prefix of the scope. */
function addRefusal(
  scope: FastifyInstance,
  url: string,
  methods: readonly string[],
  refusal: (reply: FastifyReply) => Error,
): void {
  const refuse = async (_request: FastifyRequest, reply: FastifyReply) => {
    throw refusal(reply)
  }
  scope.route({
    method: methods as HTTPMethods[],
    url: url.slice(scope.prefix.length),
    config: { isRefusal: true },
    onRequest: refuse,
    handler: refuse,
    exposeHeadRoute: false,
  })
}

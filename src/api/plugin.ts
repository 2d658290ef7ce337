import type { FastifyInstance, RouteOptions } from 'fastify'
import { refuseOtherMethods } from '../http/other-methods.ts'
import { refuseOtherPaths } from '../http/other-paths.ts'
import { advisoryRoutes } from './advisories.ts'
import type { ApiContext } from './context.ts'
import { ApiError, errcodes, notFound, sendApiError } from './errors.ts'
import { eventRoutes } from './events.ts'
import { groupRoutes } from './groups.ts'
import { memberRoutes } from './members.ts'
import { type DescribedRoute, describeInterfaces } from './openapi.ts'
import { packageRoutes } from './packages.ts'
import { quarantineRoutes } from './quarantine.ts'
import { repositoryRoutes } from './repositories.ts'
import { upstreamRoutes } from './upstreams.ts'
import { userRoutes } from './user.ts'
import { versionRoutes } from './versions.ts'

const everyRoute = [
  userRoutes,
  groupRoutes,
  repositoryRoutes,
  memberRoutes,
  eventRoutes,
  packageRoutes,
  advisoryRoutes,
  versionRoutes,
  quarantineRoutes,
  upstreamRoutes,
]

/** The interfaces for tokens (DESIGN §6): JSON, errors with errcode and errmsg, RFC 6750 in the headers. */
export async function api(app: FastifyInstance, context: ApiContext): Promise<void> {
  await app.register(
    async (scope) => {
      scope.setErrorHandler(sendApiError)
      acceptEmptyBodies(scope)
      scope.addHook('onRequest', async (request, reply) => {
        // What a token is shown is nobody else's (RFC 6750 §5.3).
        reply.header('cache-control', 'private, no-store')
        // PostgreSQL's texts know no NUL, so nothing is named with one.
        if (request.url.includes('%00')) throw notFound('not found')
      })
      const added: RouteOptions[] = []
      scope.addHook('onRoute', (route) => void added.push(route))
      for (const routes of everyRoute) await routes(scope, context)
      const document = describeInterfaces(added.flatMap(describedRoute), context.config)
      scope.get('/openapi.json', async () => document)
      for (const [url, methods] of methodsByUrl([...added])) {
        refuseOtherMethods(scope, url, methods, methodNotAllowed)
      }
      refuseOtherPaths(scope, noSuchInterface)
    },
    { prefix: '/api' },
  )
}

/** Many clients name the type of a body that they do not send; a handler that needs one says so. */
function acceptEmptyBodies(scope: FastifyInstance): void {
  const parseJson = scope.getDefaultJsonParser('error', 'error')
  scope.addContentTypeParser<string>(
    'application/json',
    { parseAs: 'string' },
    (request, body, done) => void (body === '' ? done(null, undefined) : parseJson(request, body, done)),
  )
}

function describedRoute({ method, url, config }: RouteOptions): DescribedRoute[] {
  const about = config?.interface
  // Fastify adds a HEAD to every GET.
  return about && method !== 'HEAD' ? [{ method: String(method), url, about }] : []
}

/** The methods of each address, which is told without the scope's prefix. */
function methodsByUrl(routes: (RouteOptions & { routePath?: string })[]): Map<string, string[]> {
  const methods = new Map<string, string[]>()
  for (const { method, routePath = '' } of routes) {
    methods.set(routePath, [...(methods.get(routePath) ?? []), ...[method].flat()].sort())
  }
  return methods
}

function methodNotAllowed(allow: string): ApiError {
  return new ApiError(405, errcodes.unimplemented, `the method must be one of ${allow}`, { allow })
}

/** The answer for every address under /api that is none. */
export function noSuchInterface(): ApiError {
  return notFound('there is no such interface')
}

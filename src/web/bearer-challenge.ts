import type { FastifyInstance, FastifyRequest } from 'fastify'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** The scopes that a request to this route needs. */
    scopes?: readonly string[]
    /** Returns the URL of the document that describes the protected resource of a request (RFC 9728). */
    resourceMetadata?: (request: FastifyRequest) => string
  }
}

/** The path of the documents that describe protected resources (RFC 9728 §3.1). The path of the resource follows. */
export const resourceMetadataPath = '/.well-known/oauth-protected-resource'

/**
 * Makes the challenges of the routes that are added from now on name their resource, by its path below BASE_URL. `scopes` are
 * what a route needs that names none.
 */
export function nameResource(
  scope: FastifyInstance,
  baseUrl: string,
  resourceOf: (request: FastifyRequest) => string,
  scopes: readonly string[] = [],
): void {
  const resourceMetadata = (request: FastifyRequest) =>
    `${baseUrl}${resourceMetadataPath}${resourceOf(request).replace(/^\/$/, '')}`
  scope.addHook('onRoute', (route) => {
    route.config = { scopes, ...route.config, resourceMetadata }
  })
}

/**
 * Returns the challenge of a 401 or a 403 (RFC 6750 §3). It names the document about the resource (RFC 9728 §5.1), and all
 * scopes that the request needs: those of its route, and `moreScopes`.
 */
export function bearerChallenge(
  request: FastifyRequest,
  attributes: Readonly<Record<string, string>> = {},
  moreScopes: readonly string[] = [],
): string {
  const { scopes = [], resourceMetadata } = request.routeOptions.config
  const needed = [...new Set([...scopes, ...moreScopes])]
  const all = {
    realm: 'svc',
    ...attributes,
    ...(needed.length > 0 && { scope: needed.join(' ') }),
    ...(resourceMetadata && { resource_metadata: resourceMetadata(request) }),
  }
  return `Bearer ${Object.entries(all)
    .map(([name, value]) => `${name}="${value}"`)
    .join(', ')}`
}

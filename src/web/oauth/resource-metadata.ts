import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../../context.ts'
import { allActs, isForApplications, scopesOf } from '../../domain/permissions.ts'
import { apiResource, resourceOfPath, siteResource } from '../../domain/resources.ts'
import { resourceMetadataPath } from '../bearer-challenge.ts'
import { OAuthError, sendJson } from './errors.ts'

/** The scopes that the endpoints of the API check, those of the registries among them. */
const apiScopes = [...new Set(allActs.filter(isForApplications).flatMap(scopesOf))].sort()
const registryScopes = [...new Set([...scopesOf('pull'), ...scopesOf('push')])]

/**
 * The documents about protected resources (RFC 9728 §3): the site, the API, and every registry. They are made without the
 * database, so nobody learns from them which private repositories exist.
 */
export async function resourceMetadataRoute(
  app: FastifyInstance,
  { config: { authUrl, baseUrl } }: AppContext,
): Promise<void> {
  for (const url of [resourceMetadataPath, `${resourceMetadataPath}/*`]) {
    app.get<{ Params: { '*'?: string } }>(url, async (request, reply) => {
      const path = `/${request.params['*'] ?? ''}`
      const resource = resourceOfPath(path)
      if (resource === null)
        throw new OAuthError('invalid_request', 'There is no such protected resource.', { status: 404 })
      return sendJson(reply, {
        // The same bytes as in the URL, with or without the last slash (RFC 9728 §3.3).
        resource: `${baseUrl}${path.replace(/^\/$/, '')}`,
        authorization_servers: [authUrl],
        scopes_supported: resource === siteResource || resource === apiResource ? apiScopes : registryScopes,
        bearer_methods_supported: ['header'],
      })
    })
  }
}

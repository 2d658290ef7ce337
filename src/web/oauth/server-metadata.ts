import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../../context.ts'
import { allScopes } from '../../domain/scopes.ts'
import { deviceGrantType } from './device.ts'
import { sendJson } from './errors.ts'
import { exchangeGrantType } from './token-exchange.ts'

/** Some clients use the first method of this list. */
const secretMethods = ['client_secret_basic', 'client_secret_post']
const clientAuthenticationMethods = [...secretMethods, 'none']

const wellKnown = '/.well-known/oauth-authorization-server'

/** Returns the paths of the metadata. An issuer with a path also has the path of RFC 8414 §3.1. */
function metadataPaths(authUrl: string): string[] {
  const { pathname } = new URL(authUrl)
  return pathname === '/' ? [wellKnown] : [wellKnown, wellKnown + pathname]
}

/** The endpoint of the authorization server metadata (RFC 8414, RFC 9207 §3). */
export async function serverMetadataRoute(
  app: FastifyInstance,
  { config: { authUrl, baseUrl } }: AppContext,
): Promise<void> {
  const metadata = {
    issuer: authUrl,
    authorization_endpoint: `${authUrl}/oauth2/auth`,
    device_authorization_endpoint: `${authUrl}/oauth2/device`,
    token_endpoint: `${authUrl}/oauth2/token`,
    revocation_endpoint: `${authUrl}/oauth2/revoke`,
    introspection_endpoint: `${authUrl}/oauth2/introspect`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token', deviceGrantType, exchangeGrantType],
    token_endpoint_auth_methods_supported: clientAuthenticationMethods,
    revocation_endpoint_auth_methods_supported: clientAuthenticationMethods,
    introspection_endpoint_auth_methods_supported: secretMethods,
    code_challenge_methods_supported: ['S256'],
    service_documentation: `${baseUrl}/docs`,
    scopes_supported: allScopes,
    authorization_response_iss_parameter_supported: true,
  }
  for (const path of metadataPaths(authUrl)) app.get(path, (_request, reply) => sendJson(reply, metadata))
}

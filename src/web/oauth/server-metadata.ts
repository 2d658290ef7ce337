import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../../context.ts'
import { allScopes, openidScopes } from '../../domain/scopes.ts'
import { tokenAlgorithms } from '../../domain/token-algorithm.ts'
import { accountClaims, authenticationClasses } from '../../openid/claims.ts'
import { deviceGrantType } from './device.ts'
import { sendJson } from './errors.ts'
import { exchangeGrantType } from './token-exchange.ts'

/** Some clients use the first method of this list. */
const secretMethods = ['client_secret_basic', 'client_secret_post']
const clientAuthenticationMethods = [...secretMethods, 'none']

const wellKnown = '/.well-known/oauth-authorization-server'

/** The path below the issuer: Discovery §4 appends it, also when the issuer has a path. */
const openidPath = '/.well-known/openid-configuration'
/** The claims of every ID token. */
const tokenClaims = ['iss', 'sub', 'aud', 'exp', 'iat', 'auth_time', 'nonce', 'at_hash', 'sid', 'acr', 'amr']

/** Returns the paths of the metadata. An issuer with a path also has the path of RFC 8414 §3.1. */
function metadataPaths(authUrl: string): string[] {
  const { pathname } = new URL(authUrl)
  return pathname === '/' ? [wellKnown] : [wellKnown, wellKnown + pathname]
}

/** The endpoints of the authorization server metadata (RFC 8414, RFC 9207 §3, OpenID Connect Discovery §4, OPENID 241). */
export async function serverMetadataRoute(
  app: FastifyInstance,
  { config: { authUrl, baseUrl, clientDocuments } }: AppContext,
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
    scopes_supported: [...allScopes, ...openidScopes],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: clientDocuments !== 'off',
  }
  for (const path of metadataPaths(authUrl)) app.get(path, (_request, reply) => sendJson(reply, metadata))
  const ofOpenid = {
    ...metadata,
    userinfo_endpoint: `${authUrl}/oauth2/userinfo`,
    jwks_uri: `${authUrl}/oauth2/jwks`,
    end_session_endpoint: `${authUrl}/oauth2/logout`,
    backchannel_logout_supported: true,
    backchannel_logout_session_supported: true,
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: tokenAlgorithms,
    claim_types_supported: ['normal'],
    claims_supported: [...tokenClaims, ...accountClaims],
    claims_parameter_supported: true,
    request_parameter_supported: false,
    request_uri_parameter_supported: false,
    acr_values_supported: authenticationClasses,
    prompt_values_supported: ['none', 'login', 'consent', 'select_account'],
  }
  app.get(openidPath, (_request, reply) => sendJson(reply, ofOpenid))
}

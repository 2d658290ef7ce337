import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { shareStatements } from '../database/shared-statements.ts'
import { hashSecret } from '../domain/secrets.ts'
import { formOf, readClient, readRequired, refuseClient } from './client-request.ts'
import { sendJson } from './errors.ts'
import { introspectTokens, type SeenToken } from './token-pairs.ts'

/**
 * Introspection endpoint (RFC 7662). An application sees its own tokens; a resource server sees all but refresh tokens.
 */
export async function introspectRoute(app: FastifyInstance, { db, config }: AppContext): Promise<void> {
  const introspect = shareStatements(introspectTokens.bind(null, db))

  app.post('/introspect', async (request, reply) => {
    const form = formOf(request)
    const client = readClient(request, form)
    const token = readRequired(form, 'token')
    const seen = await introspect({ client, tokenHash: hashSecret(token) })
    if (!seen) return refuseClient(db, client)
    return sendJson(reply, seen.token ? describe(seen.token, config.authUrl) : { active: false })
  })
}

/** Returns the response of RFC 7662 §2.2. It includes the token's resource scope for resource servers (SPEC 2.1). */
function describe(token: SeenToken, issuer: string): object {
  return {
    active: true,
    scope: token.scopes.join(' '),
    ...(token.clientId !== null && { client_id: token.clientId }),
    // The type differs, so that no server accepts a refresh token as a bearer token.
    token_type: token.kind === 'refresh' ? 'refresh_token' : 'bearer',
    ...(token.expiresAt !== null && { exp: token.expiresAt }),
    iat: token.issuedAt,
    iss: issuer,
    // A deploy token acts for a group, so it has no account id and no username.
    ...(token.group
      ? { sub: `group:${token.group.id}`, group: token.group.name }
      : { sub: token.accountId, username: token.username }),
    resource_scope: token.resourceScope,
    ...(token.resourceScope === 'specified' && { repositories: token.repositories }),
  }
}

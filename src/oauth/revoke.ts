import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { shareStatements } from '../database/shared-statements.ts'
import { hashSecret } from '../domain/secrets.ts'
import { applicationActor } from '../http/actor.ts'
import { formOf, readClient, readRequired, refuseClient } from './client-request.ts'
import { sendJson } from './errors.ts'
import { revokeTokens } from './token-pairs.ts'

/** Revocation endpoint: SPEC 4.3, RFC 7009. It ignores `token_type_hint`: both columns are searched for the token's hash. */
export async function revokeRoute(app: FastifyInstance, { db }: AppContext): Promise<void> {
  const revoke = shareStatements(revokeTokens.bind(null, db))

  app.post('/revoke', async (request, reply) => {
    const form = formOf(request)
    const client = readClient(request, form)
    const token = readRequired(form, 'token')
    const isAuthenticated = await revoke({
      client,
      tokenHash: hashSecret(token),
      actor: applicationActor(request),
    })
    if (!isAuthenticated) return refuseClient(db, client)
    // An unknown token is not an error: it does not work, which is what the client wants (RFC 7009 §2.2).
    return sendJson(reply, {})
  })
}

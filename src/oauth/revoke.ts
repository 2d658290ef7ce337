import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { hashSecret } from '../domain/secrets.ts'
import { readClient, refuseClient } from './client-auth.ts'
import { sendJson } from './errors.ts'
import { formOf, readRequired } from './form.ts'
import { revokeToken } from './tokens.ts'

/** Revocation endpoint: SPEC 4.3, RFC 7009. `token_type_hint` is not needed: a token's hash is searched in both columns. */
export async function revokeRoute(app: FastifyInstance, { db }: AppContext): Promise<void> {
  app.post('/revoke', async (request, reply) => {
    const form = formOf(request)
    const client = readClient(request, form)
    const token = readRequired(form, 'token')
    const authenticated = await revokeToken(db, client, hashSecret(token))
    if (!authenticated) return refuseClient(db, client)
    // An unknown token is no error: what the client wanted is already so (RFC 7009 §2.2).
    return sendJson(reply, {})
  })
}

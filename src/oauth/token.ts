import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { readClient } from './client-auth.ts'
import { OAuthError, sendJson } from './errors.ts'
import { formOf, readRequired } from './form.ts'
import { exchange, refresh } from './grants.ts'

/** The grants by their name in requests. */
const grants = new Map(Object.entries({ authorization_code: exchange, refresh_token: refresh }))

/** Token endpoint: SPEC 4.2, RFC 6749 §3.2. */
export async function tokenRoute(app: FastifyInstance, context: AppContext): Promise<void> {
  app.post('/token', async (request, reply) => {
    const form = formOf(request)
    const client = readClient(request, form)
    const grant = grants.get(readRequired(form, 'grant_type'))
    if (!grant) {
      throw new OAuthError(
        'unsupported_grant_type',
        'The grant_type must be authorization_code or refresh_token.',
      )
    }
    return sendJson(reply, await grant(context, request.log, client, form))
  })
}

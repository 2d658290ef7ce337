import { createHash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { findLogo } from './applications.ts'

/**
 * An application's logo (SPEC 2.1). It comes from outside: the browser must take it as the image it is, and
 * nothing in it may run when its address is opened by itself.
 */
export async function logoRoute(app: FastifyInstance, { db }: AppContext): Promise<void> {
  app.get<{ Params: { clientId: string } }>('/applications/:clientId/logo', async (request, reply) => {
    const { clientId } = request.params
    const logo = isClientId(clientId) ? await findLogo(db, clientId) : null
    if (!logo) return reply.callNotFound()
    const etag = `"${createHash('sha256').update(logo.image).digest('base64url')}"`
    reply.headers({
      'cache-control': 'public, max-age=3600',
      'content-security-policy': "default-src 'none'; sandbox",
      'x-content-type-options': 'nosniff',
      etag,
    })
    if (request.headers['if-none-match'] === etag) return reply.code(304).send()
    return reply.type(logo.type).send(logo.image)
  })
}

/** What the database could not even be asked about, such as NUL, is no client identifier. */
function isClientId(text: string): boolean {
  return /^[a-z0-9]{8,64}$/.test(text)
}

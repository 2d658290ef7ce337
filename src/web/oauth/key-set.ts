import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../../context.ts'
import { singleFlight } from '../../domain/single-flight.ts'
import { createMissingKeys, listPublicKeys } from '../../openid/keys.ts'
import { sendJson } from './errors.ts'

/** Clients may keep the keys for an hour. A new key is published long before it signs. */
const maxAgeSeconds = 3600

/** `GET /oauth2/jwks`: the public keys of ID tokens (RFC 7517 §5, OPENID 242). */
export async function keySetRoute(app: FastifyInstance, { config, db }: AppContext): Promise<void> {
  const creation = singleFlight<void>()

  app.get('/jwks', async (_request, reply) => {
    let keys = await listPublicKeys(db)
    if (keys.length === 0) {
      await creation.share('', () => createMissingKeys(db, config))
      keys = await listPublicKeys(db)
    }
    reply.header('cache-control', `public, max-age=${maxAgeSeconds}`).removeHeader('pragma')
    return sendJson(reply, { keys })
  })
}

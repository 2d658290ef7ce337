import type { FastifyInstance, FastifyReply } from 'fastify'
import type { AppContext } from '../../context.ts'
import { findLogo, findLogoHead, type LogoHead } from '../../oauth/applications.ts'
import { isClientId } from '../../oauth/client-id.ts'
import { hasTag } from '../conditional-requests.ts'

/**
 * An application's logo (SPEC 2.1). The file is untrusted: the browser must treat it as an image, and nothing in it may
 * run when somebody opens its URL.
 */
export async function logoRoute(app: FastifyInstance, { db }: AppContext): Promise<void> {
  const url = '/applications/:clientId/logo'

  app.get<Route>(url, { exposeHeadRoute: false }, async (request, reply) => {
    const { clientId } = request.params
    const logo = isClientId(clientId) ? await findLogo(db, clientId) : null
    if (!logo) return reply.callNotFound()
    setLogoHeaders(reply, logo)
    if (hasTag(request.headers['if-none-match'], etagOf(logo))) return reply.code(304).send()
    return reply.send(logo.image)
  })

  // Fastify's own HEAD route would needlessly read the image from the database.
  app.head<Route>(url, async (request, reply) => {
    const { clientId } = request.params
    const logo = isClientId(clientId) ? await findLogoHead(db, clientId) : null
    if (!logo) return reply.callNotFound()
    return setLogoHeaders(reply, logo).header('content-length', logo.size).send()
  })
}

interface Route {
  Params: { clientId: string }
}

/** Sets the headers of a logo, which is an untrusted file. */
export function setLogoHeaders(reply: FastifyReply, logo: LogoHead): FastifyReply {
  return reply.type(logo.type).headers({
    'cache-control': 'public, max-age=3600',
    'content-security-policy': "default-src 'none'; sandbox",
    'x-content-type-options': 'nosniff',
    etag: etagOf(logo),
  })
}

function etagOf({ sha256 }: LogoHead): string {
  return `"${sha256}"`
}

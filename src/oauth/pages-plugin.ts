import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AppContext } from '../context.ts'
import { showError } from '../http/error-pages.ts'
import { refuseOtherMethods } from '../http/other-methods.ts'
import { PageError } from '../http/page-error.ts'
import { page } from '../http/pages.ts'
import { leavingPagePolicy, pagePolicy } from '../http/security-headers.ts'
import { speakHtml } from '../http/speak-html.ts'
import { authorizationsPage } from './authorizations-page.ts'
import { authorizeRoute } from './authorize.ts'
import { AuthorizationError, LinkError, sendBack } from './authorize-errors.ts'
import { consentRoutes } from './consent.ts'
import { logoRoute } from './logo.ts'

const linkErrorPage = page<{ reason: string; again: string | null }>('oauth/link-error')

/** The part of OAuth that people see: the authorization endpoint, their authorizations, and the logos on both. */
export async function oauthPages(app: FastifyInstance, context: AppContext): Promise<void> {
  await app.register(async (scope) => {
    await speakHtml(scope, context.config, leavingPagePolicy)
    await scope.register(async (endpoint) => {
      endpoint.setErrorHandler(answerRefusal(context.config.authUrl))
      await authorizeRoute(endpoint, context)
      await consentRoutes(endpoint, context)
      refuseOtherMethods(endpoint, '/oauth2/auth', ['GET', 'HEAD', 'POST'], methodNotAllowed)
      refuseOtherMethods(endpoint, '/oauth2/auth/switch', ['POST'], methodNotAllowed)
    })
  })
  await app.register(async (scope) => {
    await speakHtml(scope, context.config, pagePolicy)
    await authorizationsPage(scope, context)
  })
  await app.register(logoRoute, context)
}

/** The application is told once its redirect URI is proven; until then a page tells whoever looks (OAUTH §1). */
function answerRefusal(issuer: string) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
    if (error instanceof AuthorizationError) {
      return sendBack(reply, error.target, issuer, { error: error.code, error_description: error.message })
    }
    if (error instanceof LinkError) {
      return linkErrorPage(reply.code(400), null, { reason: error.message, again: error.again })
    }
    return showError(error, request, reply)
  }
}

function methodNotAllowed(allow: string): PageError {
  return new PageError(405, 'This address is for browsers that follow a link.', { allow })
}

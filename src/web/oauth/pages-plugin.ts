import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { wrongMethod } from '../page-error.ts'
import { leavingPagePolicy, pagePolicy, servePages, showError } from '../page-scope.ts'
import { authorizationsPage } from '../pages/account/authorizations-page.ts'
import { page } from '../pages.ts'
import { addScope } from '../scope.ts'
import { refuseOtherMethods } from '../unmatched-requests.ts'
import { authorizeRoute, redirectPostedRequest } from './authorize.ts'
import { AuthorizationError, AuthorizationPageError, sendBack } from './authorize-request.ts'
import { consentRoutes } from './consent.ts'
import { devicePages } from './device-page.ts'
import { type AuthorizeContext, DocumentWaits } from './document-client.ts'
import { logoRoute } from './logo.ts'
import { logoutPages } from './logout.ts'

const waitingPage = page<{ name: string; host: string; isKnown: boolean }>('oauth/document-waits')
const linkErrorPage = page<{ reason: string; again: string | null }>('oauth/link-error')

/** The pages of OAuth: the authorization endpoint, the authorizations of an account, and the logos on both. */
export async function oauthPages(app: FastifyInstance, context: AuthorizeContext): Promise<void> {
  await addScope(app, 'oauth pages', async (scope) => {
    await servePages(scope, context.config, leavingPagePolicy)
    await addScope(scope, 'authorization', async (endpoint) => {
      endpoint.setErrorHandler(sendAuthorizeError(context.config.authUrl))
      // Before the check for forged forms, which other sites cannot pass.
      endpoint.addHook('preValidation', redirectPostedRequest)
      // Of its own: the refusal of all other URLs below /oauth2 would match these requests first.
      await refuseOtherMethods(endpoint, wrongMethod, async () => {
        await authorizeRoute(endpoint, context)
        await consentRoutes(endpoint, context)
        await logoutPages(endpoint, context)
        await devicePages(endpoint, context)
      })
    })
  })
  await addScope(app, 'authorizations', async (scope) => {
    await servePages(scope, context.config, pagePolicy)
    scope.pageUrls.note(scope)
    await authorizationsPage(scope, context)
  })
  await logoRoute(app, context)
}

/** Sends an error to the application if its redirect URI was checked. Otherwise shows it on a page (OAUTH 8, 28). */
function sendAuthorizeError(issuer: string) {
  return (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => {
    if (error instanceof AuthorizationError) {
      return sendBack(reply, error.target, issuer, { error: error.code, error_description: error.message })
    }
    if (error instanceof AuthorizationPageError) {
      return linkErrorPage(reply.code(400), null, { reason: error.message, again: error.again })
    }
    if (error instanceof DocumentWaits) {
      const { document, isKnown } = error
      const { host } = new URL(document.clientId)
      return waitingPage(reply.code(400), null, { name: document.name, host, isKnown })
    }
    return showError(error, request, reply)
  }
}

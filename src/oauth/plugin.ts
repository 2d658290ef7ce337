import type { FastifyInstance } from 'fastify'
import { readBasicCredentials } from '../http/basic-credentials.ts'
import { refuseOtherMethods } from '../http/other-methods.ts'
import { refuseOtherPaths } from '../http/other-paths.ts'
import { forbidStoring, OAuthError, sendOAuthError } from './errors.ts'
import { acceptOnlyForms } from './form.ts'
import { introspectRoute } from './introspect.ts'
import { metadataPaths, metadataRoute } from './metadata.ts'
import { revokeRoute } from './revoke.ts'
import { type OAuthContext, tokenRoute } from './token.ts'

/** The authorization server. What programs call speaks OAuth's JSON; what people see speaks HTML, in a scope beside it. */
export async function oauth(app: FastifyInstance, context: OAuthContext): Promise<void> {
  await app.register(async (scope) => {
    speakOAuth(scope)
    await metadataRoute(scope, context)
    for (const path of metadataPaths(context.config.authUrl)) {
      refuseOtherMethods(scope, path, ['GET', 'HEAD'], methodNotAllowed)
    }
  })
  await app.register(
    async (scope) => {
      speakOAuth(scope)
      await acceptOnlyForms(scope)
      await readBasicCredentials(scope)
      await tokenRoute(scope, context)
      await revokeRoute(scope, context)
      await introspectRoute(scope, context)
      for (const url of ['/token', '/revoke', '/introspect']) {
        refuseOtherMethods(scope, url, ['POST'], methodNotAllowed)
      }
      refuseOtherPaths(scope, noSuchEndpoint)
    },
    { prefix: '/oauth2' },
  )
}

/** Every answer of the scope, refusals and faults included, in the form of RFC 6749 §5. */
function speakOAuth(scope: FastifyInstance): void {
  scope.setErrorHandler(sendOAuthError)
  scope.addHook('onRequest', async (_request, reply) => {
    forbidStoring(reply)
  })
}

function methodNotAllowed(allow: string): OAuthError {
  return new OAuthError('invalid_request', `The method must be one of ${allow}.`, {
    status: 405,
    headers: { allow },
  })
}

/** The answer for every address under /oauth2 that is none. */
export function noSuchEndpoint(): OAuthError {
  return new OAuthError('invalid_request', 'There is no such endpoint.', { status: 404 })
}

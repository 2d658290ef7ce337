import type { FastifyInstance } from 'fastify'
import { readBasicCredentials } from '../basic-credentials.ts'
import { addScope } from '../scope.ts'
import { refuseAllOthers, refuseOtherMethods } from '../unmatched-requests.ts'
import { acceptOnlyForms } from './client-request.ts'
import { deviceRoute } from './device.ts'
import { forbidStoring, OAuthError, sendOAuthError } from './errors.ts'
import { keySetRoute } from './key-set.ts'
import { resourceMetadataRoute } from './resource-metadata.ts'
import { serverMetadataRoute } from './server-metadata.ts'
import { introspectRoute, type OAuthContext, revokeRoute, tokenRoute } from './token.ts'
import { audienceRoute } from './token-exchange.ts'
import { userinfoRoute } from './userinfo.ts'

/** The endpoints of the authorization server that programs call. Its pages are in `pages-plugin.ts`. */
export async function oauth(app: FastifyInstance, context: OAuthContext): Promise<void> {
  await addScope(app, 'oauth metadata', async (scope) => {
    speakOAuth(scope)
    await refuseOtherMethods(scope, methodNotAllowed, async () => {
      await serverMetadataRoute(scope, context)
      await resourceMetadataRoute(scope, context)
    })
  })
  await addScope(
    app,
    'oauth',
    async (scope) => {
      speakOAuth(scope)
      await acceptOnlyForms(scope)
      await readBasicCredentials(scope)
      const refusals = { wrongMethod: methodNotAllowed, nothingHere: noSuchOAuthEndpoint }
      await refuseAllOthers(scope, refusals, async () => {
        await tokenRoute(scope, context)
        await deviceRoute(scope, context)
        await revokeRoute(scope, context)
        await introspectRoute(scope, context)
        await audienceRoute(scope, context)
        await keySetRoute(scope, context)
        await userinfoRoute(scope, context)
      })
    },
    '/oauth2',
  )
  await addScope(app, 'tokens to read', async (scope) => {
    speakOAuth(scope)
    await refuseOtherMethods(scope, methodNotAllowed, async () => {
      scope.post('/access/api/v1/oidc/token', context.tokenExchange.exchangeToRead)
    })
  })
}

/** Makes every response of the scope, errors included, follow RFC 6749 §5. */
function speakOAuth(scope: FastifyInstance): void {
  scope.setErrorHandler(sendOAuthError)
  scope.addHook('onRequest', (_request, reply, done) => {
    forbidStoring(reply)
    done()
  })
}

function methodNotAllowed(allow: string): OAuthError {
  return new OAuthError('invalid_request', `The method must be one of ${allow}.`, { status: 405 })
}

/** Returns the error for every URL under /oauth2 without a route. */
export function noSuchOAuthEndpoint(): OAuthError {
  return new OAuthError('invalid_request', 'There is no such endpoint.', { status: 404 })
}

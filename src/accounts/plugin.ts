import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { refuseOtherMethods } from '../http/other-methods.ts'
import { wrongMethod } from '../http/page-error.ts'
import { leavingPagePolicy, pagePolicy } from '../http/security-headers.ts'
import { speakHtml } from '../http/speak-html.ts'
import { accountRoutes } from './account-page.ts'
import { loginRoutes } from './login.ts'
import { personalTokenRoutes } from './personal-tokens-page.ts'

const postOnly = [
  '/settings/account/password',
  '/settings/account/sign-out-everywhere',
  '/settings/tokens/revoke',
]

/** Accounts: signing in, and what an account settles for itself. */
export async function accounts(app: FastifyInstance, context: AppContext): Promise<void> {
  await app.register(async (scope) => {
    // A sign-in may lead through a consent that was given before, straight on to the application.
    await speakHtml(scope, context.config, leavingPagePolicy)
    await loginRoutes(scope, context)
    refuseOtherMethods(scope, '/login', ['GET', 'HEAD', 'POST'], wrongMethod)
    refuseOtherMethods(scope, '/logout', ['POST'], wrongMethod)
  })
  await app.register(async (scope) => {
    await speakHtml(scope, context.config, pagePolicy)
    await accountRoutes(scope, context)
    await personalTokenRoutes(scope, context)
    refuseOtherMethods(scope, '/settings/account', ['GET', 'HEAD'], wrongMethod)
    refuseOtherMethods(scope, '/settings/tokens', ['GET', 'HEAD', 'POST'], wrongMethod)
    for (const url of postOnly) refuseOtherMethods(scope, url, ['POST'], wrongMethod)
  })
}

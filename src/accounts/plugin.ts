import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { wrongMethod } from '../http/page-error.ts'
import { leavingPagePolicy, pagePolicy, servePages } from '../http/page-scope.ts'
import { refuseOtherMethods } from '../http/unmatched-requests.ts'
import { accountRoutes } from './account-page.ts'
import { emailVerificationRoutes } from './email-verification-page.ts'
import { securityRoutes } from './event-pages.ts'
import { loginRoutes } from './login.ts'
import { passwordResetRoutes } from './password-reset-page.ts'
import { personalTokenRoutes } from './personal-tokens-page.ts'
import { factorRoutes } from './second-factor/factor-page.ts'
import { secondStepRoutes } from './second-factor/second-step.ts'
import { sessionRoutes } from './sessions-page.ts'

/** Accounts: sign-in, and the settings of the signed-in account. */
export async function accounts(app: FastifyInstance, context: AppContext): Promise<void> {
  await app.register(async (scope) => {
    // After a sign-in, an earlier consent may redirect the browser to the application at once.
    await servePages(scope, context.config, leavingPagePolicy)
    await refuseOtherMethods(scope, wrongMethod, async () => {
      await loginRoutes(scope, context)
      await secondStepRoutes(scope, context)
    })
  })
  await app.register(async (scope) => {
    await servePages(scope, context.config, pagePolicy)
    await refuseOtherMethods(scope, wrongMethod, async () => {
      scope.get('/settings', async (_request, reply) => reply.redirect('/settings/account', 303))
      await accountRoutes(scope, context)
      await emailVerificationRoutes(scope, context)
      await passwordResetRoutes(scope, context)
      await personalTokenRoutes(scope, context)
      await sessionRoutes(scope, context)
      await securityRoutes(scope, context)
      await factorRoutes(scope, context)
    })
  })
}

import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { PageError, wrongMethod } from '../http/page-error.ts'
import { leavingPagePolicy, pagePolicy, passkeyPolicy, servePages } from '../http/page-scope.ts'
import { refuseOtherMethods } from '../http/unmatched-requests.ts'
import { accountRoutes } from './account-page.ts'
import { emailVerificationRoutes } from './email-verification-page.ts'
import { securityRoutes } from './event-pages.ts'
import { invitationRoutes } from './invitation-page.ts'
import { loginRoutes } from './login.ts'
import { passwordResetRoutes } from './password-reset-page.ts'
import { noPasswordHere } from './passwords.ts'
import { personalTokenRoutes } from './personal-tokens-page.ts'
import { confirmAccessRoutes } from './second-factor/confirm-access.ts'
import { factorRoutes } from './second-factor/factor-page.ts'
import { passkeyRoutes } from './second-factor/passkey-pages.ts'
import { passkeySignInRoutes } from './second-factor/passkey-sign-in.ts'
import { secondStepRoutes } from './second-factor/second-step.ts'
import { sessionRoutes } from './sessions-page.ts'
import { linkRoutes, unlinkRoutes } from './single-sign-on/account-routes.ts'
import { openProviders } from './single-sign-on/providers.ts'
import { providerSignInRoutes } from './single-sign-on/sign-in-routes.ts'

/** Accounts: sign-in, and the settings of the signed-in account. */
export async function accounts(app: FastifyInstance, context: AppContext): Promise<void> {
  await app.register(async (scope) => {
    // After a sign-in, an earlier consent may redirect the browser to the application at once.
    await servePages(scope, context.config, leavingPagePolicy)
    const providers = openProviders(context.config.providers, scope.log)
    await refuseOtherMethods(scope, wrongMethod, async () => {
      await loginRoutes(scope, context)
      await secondStepRoutes(scope, context)
      await providerSignInRoutes(scope, { ...context, providers })
      await linkRoutes(scope, { ...context, providers })
    })
  })
  await app.register(async (scope) => {
    await servePages(scope, context.config, passkeyPolicy)
    await refuseOtherMethods(scope, wrongMethod, async () => {
      await passkeySignInRoutes(scope, context)
      await confirmAccessRoutes(scope, context)
    })
  })
  await app.register(async (scope) => {
    await servePages(scope, context.config, pagePolicy)
    await refuseOtherMethods(scope, wrongMethod, async () => {
      scope.get('/settings', async (_request, reply) => reply.redirect('/settings/account', 303))
      await accountRoutes(scope, context)
      await emailVerificationRoutes(scope, context)
      await scope.register(async (resets) => {
        resets.addHook('preHandler', async () => {
          if (context.config.passwordSignIn === 'off')
            throw new PageError(403, noPasswordHere(context.config))
        })
        await passwordResetRoutes(resets, context)
      })
      await invitationRoutes(scope, context)
      await personalTokenRoutes(scope, context)
      await sessionRoutes(scope, context)
      await unlinkRoutes(scope, context)
      await securityRoutes(scope, context)
      await factorRoutes(scope, context)
      await passkeyRoutes(scope, context)
    })
  })
}

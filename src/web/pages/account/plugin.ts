import type { FastifyInstance } from 'fastify'
import { noPasswordHere } from '../../../accounts/passwords.ts'
import { openProviders } from '../../../accounts/single-sign-on/providers.ts'
import type { AppContext } from '../../../context.ts'
import type { Outbound } from '../../../outbound/outbound.ts'
import { PageError } from '../../page-error.ts'
import { leavingPagePolicy, pagePolicy, passkeyPolicy, servePages } from '../../page-scope.ts'
import { addScope } from '../../scope.ts'
import { emailVerificationRoutes } from '../sign-in/email-verification-page.ts'
import { invitationRoutes } from '../sign-in/invitation-page.ts'
import { loginRoutes } from '../sign-in/login.ts'
import { passkeySignInRoutes } from '../sign-in/passkey-sign-in.ts'
import { passwordResetRoutes } from '../sign-in/password-reset-page.ts'
import { secondStepRoutes } from '../sign-in/second-step.ts'
import { providerSignInRoutes } from '../sign-in/single-sign-on.ts'
import { accountRoutes } from './account-page.ts'
import { developerRoutes } from './applications-page.ts'
import { confirmAccessRoutes } from './confirm-access.ts'
import { securityRoutes } from './event-pages.ts'
import { factorRoutes } from './factor-page.ts'
import { linkRoutes, unlinkRoutes } from './identities-page.ts'
import { notificationRoutes } from './notifications-page.ts'
import { passkeyRoutes } from './passkey-pages.ts'
import { personalTokenRoutes } from './personal-tokens-page.ts'
import { sessionRoutes } from './sessions-page.ts'
import { unsubscribeRoutes } from './unsubscribe-page.ts'

/** Accounts: sign-in, and the settings of the signed-in account. */
export async function accounts(
  app: FastifyInstance,
  context: AppContext & { outbound: Outbound },
): Promise<void> {
  await addScope(app, 'sign-in', async (scope) => {
    // After a sign-in, an earlier consent may redirect the browser to the application at once.
    await servePages(scope, context.config, leavingPagePolicy)
    const providers = openProviders(context.config, context.outbound, scope.log)
    scope.pageUrls.note(scope)
    await loginRoutes(scope, context)
    await secondStepRoutes(scope, context)
    await providerSignInRoutes(scope, { ...context, providers })
    await linkRoutes(scope, { ...context, providers })
  })
  await unsubscribeRoutes(app, context)
  await addScope(app, 'passkeys', async (scope) => {
    await servePages(scope, context.config, passkeyPolicy)
    scope.pageUrls.note(scope)
    await passkeySignInRoutes(scope, context)
    await confirmAccessRoutes(scope, context)
  })
  await addScope(app, 'account', async (scope) => {
    await servePages(scope, context.config, pagePolicy)
    scope.pageUrls.note(scope)
    scope.get('/settings', async (_request, reply) => reply.redirect('/settings/account', 303))
    await accountRoutes(scope, context)
    await emailVerificationRoutes(scope, context)
    await addScope(scope, 'password resets', async (resets) => {
      resets.addHook('preHandler', async () => {
        if (context.config.passwordSignIn === 'off') throw new PageError(403, noPasswordHere(context.config))
      })
      await passwordResetRoutes(resets, context)
    })
    await invitationRoutes(scope, context)
    await personalTokenRoutes(scope, context)
    await sessionRoutes(scope, context)
    await notificationRoutes(scope, context)
    await unlinkRoutes(scope, context)
    await securityRoutes(scope, context)
    await addScope(scope, 'applications', (forms) => developerRoutes(forms, context))
    await factorRoutes(scope, context)
    await passkeyRoutes(scope, context)
  })
}

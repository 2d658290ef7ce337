import type { FastifyInstance } from 'fastify'
import type { Parts } from '../app.ts'
import { leavingPagePolicy, pagePolicy } from '../http/security-headers.ts'
import { speakHtml } from '../http/speak-html.ts'
import { accountRoutes } from './account-page.ts'
import { loginRoutes } from './login.ts'
import { personalTokenRoutes } from './personal-tokens-page.ts'

/** Accounts: signing in, and what an account settles for itself. */
export async function accounts(app: FastifyInstance, parts: Parts): Promise<void> {
  await app.register(async (scope) => {
    // A sign-in may lead through a consent that was given before, straight on to the application.
    await speakHtml(scope, parts.config, leavingPagePolicy)
    await loginRoutes(scope, parts)
  })
  await app.register(async (scope) => {
    await speakHtml(scope, parts.config, pagePolicy)
    await accountRoutes(scope, parts)
    await personalTokenRoutes(scope, parts)
  })
}

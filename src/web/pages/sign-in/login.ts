import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { checkSignIn, renewPasswordHash } from '../../../accounts/password-check.ts'
import { noPasswordHere } from '../../../accounts/passwords.ts'
import { findFactors, hasFactor } from '../../../accounts/second-factor/factors.ts'
import { allowsPasskeys, startUse } from '../../../accounts/second-factor/passkey-ceremony.ts'
import { signInChallenge } from '../../../accounts/second-factor/passkey-challenges.ts'
import type { Config } from '../../../config.ts'
import type { AppContext } from '../../../context.ts'
import { clearCookie } from '../../cookies.ts'
import { csrfToken } from '../../csrf.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveFarewell } from '../../notice.ts'
import { policyOfOneScript } from '../../page-scope.ts'
import { page } from '../../pages.ts'
import { signInOriginOf } from '../../sign-in-origin.ts'
import { anybody, redirectToSignIn, withReturn } from '../../visit.ts'
import { type Destination, findDestination } from './destination.ts'
import { completeSignIn, endSession, noteRefusedSignIn, redirectBack } from './sign-in.ts'
import { redirectToSecondStep } from './waiting-step.ts'

interface LoginForm {
  /** The page to return to, as `signPage` returned it; empty for the home page. */
  returnId: string
  /** The username or email that was entered. */
  login: string
  problem: string | null
}

const loginPage = page<
  LoginForm & {
    destination: Destination | null
    providers: readonly { name: string; label: string }[]
    passwordSignIn: Config['passwordSignIn']
    /** Null where browsers do not allow passkeys. */
    passkeyUrl: string | null
    /** The options for a passkey that the browser offers in the field of the username, as JSON. Null for none. */
    passkeyOptions: string | null
  }
>('accounts/login')

/** A longer name belongs to nobody. */
const maxLoginCharacters = 254

const LoginQuery = z.object({ return: text, page: text, login_hint: text })
const PasswordForm = z.object({
  return: text,
  username: text.transform((name) => name.trim()),
  password: text,
})

/** `/login` and `/logout`: sign in and out (CONTRACT 4.2, 8.4). */
export async function loginRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/login',
    anybody(context, async (session, request, reply) => {
      const { return: returnId, page: from, login_hint: hint } = readQuery(LoginQuery, request)
      // The “Sign in” link of a page names the page. The server signs the path, if it is one of this site.
      if (from !== '') return redirectToSignIn(context, request, reply, from)
      if (session) return redirectBack(context, reply, returnId)
      return showLogin(context, request, reply, {
        returnId,
        login: hint.slice(0, maxLoginCharacters),
        problem: null,
      })
    }),
  )

  app.post('/login', async (request, reply) => {
    const { return: returnId, username: login, password } = readForm(PasswordForm, request)
    if (config.passwordSignIn === 'off') {
      const problem = noPasswordHere(config)
      return showLogin(context, request, reply.code(403), { returnId, login, problem })
    }
    const checked = await checkSignIn(db, login, password, signInOriginOf(request, config), config)
    if ('problem' in checked) {
      await noteRefusedSignIn(db, request, login, checked)
      reply.code(checked.status).headers(checked.headers)
      // Everybody gets the hint, so that it does not show who is an administrator.
      const needsHint = checked.status === 403 && config.passwordSignIn === 'admins'
      const problem = needsHint ? `${checked.problem} ${noPasswordHere(config)}` : checked.problem
      return showLogin(context, request, reply, { returnId, login, problem })
    }
    if (hasFactor(await findFactors(db, checked.accountId))) {
      const credentials = await renewPasswordHash(db, checked, password)
      return redirectToSecondStep(context, reply, credentials, returnId)
    }
    if (!(await completeSignIn(context, request, reply, checked, { method: 'password' }))) {
      const problem = 'The account was changed a moment ago. Sign in again.'
      return showLogin(context, request, reply.code(403), { returnId, login, problem })
    }
    await renewPasswordHash(db, checked, password)
    return redirectBack(context, reply, returnId)
  })

  app.post('/logout', async (request, reply) => {
    await endSession(context, request)
    clearCookie(reply, config, 'session')
    leaveFarewell(reply, config, 'signed-out')
    return reply.redirect('/', 303)
  })
}

/**
 * Shows the sign-in page: the providers, and the form with the entered name and the problem. Browsers offer the passkeys of
 * this site among the usernames that they fill in.
 */
export async function showLogin(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  form: LoginForm,
): Promise<FastifyReply> {
  const { providers, passwordSignIn } = context.config
  const browser = csrfToken(request, reply, context.config)
  const hasPasskeys = allowsPasskeys(context.config) && passwordSignIn !== 'off'
  if (hasPasskeys) {
    const policy = policyOfOneScript(request.server.assets['passkey.js'], context.config)
    reply.header('content-security-policy', policy)
  }
  return loginPage(
    reply,
    { account: null, csrfToken: browser },
    {
      ...form,
      destination: await findDestination(context, form.returnId),
      providers,
      passwordSignIn,
      passkeyUrl: hasPasskeys ? withReturn('/login/passkey', form.returnId) : null,
      passkeyOptions: hasPasskeys ? await startUse(context, signInChallenge(browser)) : null,
    },
  )
}

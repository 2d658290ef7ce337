import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import { changePassword } from '../../../accounts/account-lifecycle.ts'
import type { AccountDetails } from '../../../accounts/accounts.ts'
import { confirmPassword } from '../../../accounts/password-check.ts'
import {
  findPasswordProblem,
  mayUsePassword,
  minPasswordCharacters,
  noPasswordHere,
} from '../../../accounts/passwords.ts'
import { endSessions, type Session } from '../../../accounts/sessions.ts'
import { type Identity, listIdentities } from '../../../accounts/single-sign-on/identities.ts'
import type { AppContext } from '../../../context.ts'
import { clearCookie } from '../../cookies.ts'
import { readForm, text } from '../../forms.ts'
import { leaveFarewell, leaveNotice } from '../../notice.ts'
import { PageError } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { principalOf } from '../../principal.ts'
import { anybody, signedIn } from '../../visit.ts'
import { startSession } from '../sign-in/sign-in.ts'
import { hasPassword, ownDetails, profileRoutes } from './profile-routes.ts'

const accountPage = page<{
  about: AccountDetails
  /** Whether svc sends mails. */
  hasMail: boolean
  /** The linked accounts at sign-in providers, and the providers that can be linked. */
  identities: Identity[]
  linkable: readonly { name: string; label: string }[]
  /** Returns the label of a configured provider. Undefined for other issuers. */
  labelOf: (issuer: string) => string | undefined
  /** Whether there is a password to change. */
  hasPassword: boolean
}>('accounts/account')
const passwordPage = page<{ minPasswordCharacters: number; problem: string | null }>('accounts/password')

const passwordUrl = '/settings/account/password'
const PasswordForm = z.object({ current_password: text, new_password: text, repeated_password: text })

/**
 * `/settings/account`: what is known about the account, with a page below it for each form: its profile, username and
 * email, password and deletion.
 */
export async function accountRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/settings/account',
    signedIn(context, async ({ session }, _request, reply) => {
      const identities = await listIdentities(db, session.account.id)
      const linked = new Set(identities.map(({ issuer }) => issuer))
      return accountPage(reply, session, {
        about: await ownDetails(context, session),
        hasMail: config.mail !== null,
        identities,
        linkable: config.providers.filter(({ issuer }) => !linked.has(issuer)),
        labelOf: (issuer) => config.providers.find((provider) => provider.issuer === issuer)?.label,
        hasPassword: mayUsePassword(config, session.account.isAdmin) && (await hasPassword(context, session)),
      })
    }),
  )

  app.get(
    passwordUrl,
    signedIn(context, async ({ session }, _request, reply) => {
      if (!mayUsePassword(config, session.account.isAdmin)) throw new PageError(403, noPasswordHere(config))
      if (!(await hasPassword(context, session))) return reply.redirect('/settings/account', 303)
      return showPassword(reply, session, null)
    }),
  )

  app.post(
    passwordUrl,
    signedIn(context, { form: passwordUrl }, async ({ session, by }, request, reply) => {
      if (!mayUsePassword(config, session.account.isAdmin)) throw new PageError(403, noPasswordHere(config))
      const form = readForm(PasswordForm, request)
      const chosen = form.new_password
      const isRepeated = chosen === form.repeated_password
      const problem =
        findPasswordProblem(chosen, session.account.username) ??
        (isRepeated ? null : 'The two new passwords are not the same.')
      if (problem) return showPassword(reply.code(400), session, problem)

      const checked = await confirmPassword(db, session.account.id, form.current_password)
      if ('problem' in checked) {
        reply.code(checked.status).headers(checked.headers)
        const message = checked.status === 403 ? 'Your current password is wrong.' : checked.problem
        return showPassword(reply, session, message)
      }
      const changed = await changePassword(db, by, checked, chosen)
      const newSession = changed && (await startSession(context, request, reply, changed, null))
      if (newSession === null) {
        const message = 'Your account was changed a moment ago, so you are signed out. Sign in again.'
        throw new PageError(409, message, { next: { url: '/login', label: 'Sign in' } })
      }
      const notice = 'Your password was changed, and every other browser was signed out.'
      leaveNotice(request, reply, config, notice, newSession)
      return reply.redirect('/settings/account', 303)
    }),
  )

  await profileRoutes(app, context)

  app.get(
    '/settings/account/sign-out-everywhere',
    signedIn(context, async ({ session }, _request, reply) => {
      return confirmationPage(reply, session, {
        title: 'Sign out everywhere?',
        explanation: 'This ends all your sessions, including this one. Tokens and applications keep working.',
        action: '/settings/account/sign-out-everywhere',
        fields: {},
        button: 'Sign out everywhere',
        ask: null,
        back: '/settings/account',
      })
    }),
  )

  app.post(
    '/settings/account/sign-out-everywhere',
    anybody(context, async (session, request, reply) => {
      if (session) {
        const { id } = session.account
        await endSessions(db, principalOf(request, session), id, 'all', 'sign-out')
      }
      clearCookie(reply, config, 'session')
      leaveFarewell(reply, config, 'signed-out')
      return reply.redirect('/login', 303)
    }),
  )
}

function showPassword(reply: FastifyReply, session: Session, problem: string | null): FastifyReply {
  return passwordPage(reply, session, { minPasswordCharacters, problem })
}

import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import { changePassword } from '../../../accounts/account-lifecycle.ts'
import { type AccountDetails, findAccountDetails } from '../../../accounts/accounts.ts'
import {
  findPasswordProblem,
  mayUsePassword,
  minPasswordCharacters,
  noPasswordHere,
} from '../../../accounts/passwords.ts'
import { endSessions, type Session } from '../../../accounts/sessions.ts'
import {
  findConfirmationWays,
  type Identity,
  listIdentities,
} from '../../../accounts/single-sign-on/identities.ts'
import type { AppContext } from '../../../context.ts'
import { clearCookie } from '../../cookies.ts'
import { readForm, text } from '../../forms.ts'
import { leaveFarewell, leaveNotice } from '../../notice.ts'
import { PageError } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { principalOf } from '../../principal.ts'
import { anybody, signedIn } from '../../visit.ts'
import { confirmPassword, startSession } from '../sign-in/sign-in.ts'
import { type ProfileProblem, profileRoutes } from './profile-routes.ts'

const accountPage = page<{
  about: AccountDetails | null
  problem: string | null
  /** The problem of a form other than the password form. */
  profileProblem: ProfileProblem | null
  /** Whether svc sends mails. */
  hasMail: boolean
  minPasswordCharacters: number
  /** The linked accounts at sign-in providers, and the providers that can be linked. */
  identities: Identity[]
  linkable: readonly { name: string; label: string }[]
  /** Returns the label of a configured provider. Undefined for other issuers. */
  labelOf: (issuer: string) => string | undefined
  mayUsePassword: boolean
  /** False for an account that was created by a sign-in with a provider. */
  hasPassword: boolean
}>('accounts/account')

const PasswordForm = z.object({ current_password: text, new_password: text, repeated_password: text })

/** `/settings/account`: profile, password, signing out everywhere, export and deletion. */
export async function accountRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/settings/account',
    signedIn(context, async ({ session }, _request, reply) => {
      return showAccount(context, reply, session, { problem: null })
    }),
  )

  app.post(
    '/settings/account/password',
    signedIn(context, { form: '/settings/account' }, async ({ session, by }, request, reply) => {
      if (!mayUsePassword(config, session.account.isAdmin)) throw new PageError(403, noPasswordHere(config))
      const form = readForm(PasswordForm, request)
      const chosen = form.new_password
      const isRepeated = chosen === form.repeated_password
      const problem =
        findPasswordProblem(chosen, session.account.username) ??
        (isRepeated ? null : 'The two new passwords are not the same.')
      if (problem) return showAccount(context, reply.code(400), session, { problem })

      const checked = await confirmPassword(db, session.account.id, form.current_password)
      if ('problem' in checked) {
        reply.code(checked.status).headers(checked.headers)
        const message = checked.status === 403 ? 'Your current password is wrong.' : checked.problem
        return showAccount(context, reply, session, { problem: message })
      }
      const changed = await changePassword(db, by, checked, chosen)
      const newSession = changed && (await startSession(context, request, reply, changed, null))
      if (newSession === null) {
        const message = 'The password was changed a moment ago. Sign in with the new one.'
        return showAccount(context, reply.code(409), session, { problem: message })
      }
      const notice = 'Your password was changed, and every other browser was signed out.'
      leaveNotice(request, reply, config, notice, newSession)
      return reply.redirect('/settings/account', 303)
    }),
  )

  await profileRoutes(app, context, (reply, session, profileProblem) =>
    showAccount(context, reply, session, { problem: null, profileProblem }),
  )

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

async function showAccount(
  { config, db }: AppContext,
  reply: FastifyReply,
  session: Session,
  shown: {
    problem: string | null
    profileProblem?: ProfileProblem
  },
): Promise<FastifyReply> {
  const about = await findAccountDetails(db, session.account.username)
  const identities = await listIdentities(db, session.account.id)
  const { hasPassword } = await findConfirmationWays(db, session.account.id)
  const linked = new Set(identities.map(({ issuer }) => issuer))
  return accountPage(reply, session, {
    identities,
    hasPassword,
    linkable: config.providers.filter(({ issuer }) => !linked.has(issuer)),
    labelOf: (issuer) => config.providers.find((provider) => provider.issuer === issuer)?.label,
    mayUsePassword: mayUsePassword(config, session.account.isAdmin),
    profileProblem: null,
    ...shown,
    about,
    hasMail: config.mail !== null,
    minPasswordCharacters,
  })
}

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { exportAccount } from '../../../accounts/account-export.ts'
import {
  chooseHeir,
  deleteAccount,
  revokeAllAccess,
  updateAccount,
} from '../../../accounts/account-lifecycle.ts'
import { type AccountChanges, type AccountDetails, findAccountDetails } from '../../../accounts/accounts.ts'
import { verificationMail } from '../../../accounts/email-verifications.ts'
import { confirmPassword } from '../../../accounts/password-check.ts'
import type { Session } from '../../../accounts/sessions.ts'
import { findConfirmationWays } from '../../../accounts/single-sign-on/identities.ts'
import type { AppContext } from '../../../context.ts'
import { brokenConstraint } from '../../../database/errors.ts'
import { countAttempt } from '../../../database/failure-limit.ts'
import { describeRule } from '../../../database/rules.ts'
import { formatCount } from '../../../domain/formats.ts'
import { isPlainText } from '../../../domain/plain-text.ts'
import { queueMail } from '../../../mail/mail-queue.ts'
import { clearCookie } from '../../cookies.ts'
import { readForm, text } from '../../forms.ts'
import { leaveFarewell, leaveNotice } from '../../notice.ts'
import { PageError } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { requireConfirmation, signedIn, type Visit } from '../../visit.ts'

const profilePage = page<{ displayName: string; problem: string | null }>('accounts/profile')
const signInPage = page<{
  about: AccountDetails
  /** What the fields have. */
  shown: { username: string; email: string }
  /** Whether svc sends mails. */
  hasMail: boolean
  /** False for an account that was created by a sign-in with a provider. */
  hasPassword: boolean
  problem: string | null
}>('accounts/username-and-email')
const deletePage = page<{
  hasPassword: boolean
  /** Whether the person must choose what happens to groups that have no other admin. */
  asksForGroups: boolean
  problem: string | null
}>('accounts/delete-account')

const profileUrl = '/settings/account/profile'
const signInUrl = '/settings/account/sign-in'
const deleteUrl = '/settings/account/delete'

const trimmed = text.transform((value) => value.trim())
const ProfileForm = z.object({ display_name: trimmed })
const SignInForm = z.object({ username: trimmed, email: trimmed, current_password: text })
const DeleteForm = z.object({
  username: trimmed,
  current_password: text,
  groups_to: trimmed,
  leave_groups: text,
})

/** The pages and acts below `/settings/account` that are not the password: profile, export and deletion. */
export async function profileRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    profileUrl,
    signedIn(context, async ({ session }, _request, reply) => {
      const { displayName } = await ownDetails(context, session)
      return profilePage(reply, session, { displayName, problem: null })
    }),
  )

  app.post(
    profileUrl,
    signedIn(context, { form: profileUrl }, async ({ session, by }, request, reply) => {
      const { display_name: displayName } = readForm(ProfileForm, request)
      const isPlain = isPlainText(displayName)
      const problem = isPlain
        ? await change({ session, by }, { displayName })
        : 'A name must be one line of text.'
      if (problem) return profilePage(reply.code(400), session, { displayName, problem })
      leaveNotice(request, reply, config, 'Your profile was saved.')
      return reply.redirect('/settings/account', 303)
    }),
  )

  app.get(
    signInUrl,
    signedIn(context, async ({ session }, _request, reply) => showSignIn(reply, session, { problem: null })),
  )

  app.post(
    signInUrl,
    signedIn(context, { form: signInUrl }, async ({ session, by }, request, reply) => {
      const { username, email, current_password: password } = readForm(SignInForm, request)
      const entered = { username, email }
      const refused =
        (await refuseWithoutPassword(request, reply, session, password)) ??
        (await refuseManyMails(reply, session))
      if (refused) return showSignIn(reply, session, { problem: refused, entered })
      const isPassword = password !== '' && password.toLowerCase() === username.toLowerCase()
      const problem = isPassword
        ? 'The password is the username. Choose another one.'
        : await change({ session, by }, { username: username.toLowerCase(), email: email || null })
      if (problem) return showSignIn(reply.code(400), session, { problem, entered })
      leaveNotice(request, reply, config, 'Your username and email were saved.')
      return reply.redirect('/settings/account', 303)
    }),
  )

  app.post(
    '/settings/account/verification',
    signedIn(context, { form: '/settings/account' }, async ({ session }, request, reply) => {
      const refused = await refuseManyMails(reply, session)
      if (refused) return showSignIn(reply, session, { problem: refused })
      const isQueued = await queueMail(db, config, verificationMail, { accountId: session.account.id })
      const notice = isQueued
        ? 'The mail is being sent. Open its link to verify the address.'
        : 'No mail was sent: this server does not send mails.'
      leaveNotice(request, reply, config, notice)
      return reply.redirect('/settings/account', 303)
    }),
  )

  app.get(
    '/settings/account/export',
    signedIn(context, async ({ session }, _request, reply) => {
      const exported = await exportAccount(db, session.account.id)
      return reply
        .header('content-disposition', 'attachment; filename="account.json"')
        .type('application/json')
        .send(Buffer.from(`${JSON.stringify(exported, null, 2)}\n`))
    }),
  )

  app.get(
    '/settings/account/revoke-all',
    signedIn(context, async ({ session }, _request, reply) => {
      return confirmationPage(reply, session, {
        title: 'Revoke all tokens and applications?',
        explanation:
          'Every personal access token stops working at once, and applications can no longer act for you. You stay signed in.',
        action: '/settings/account/revoke-all',
        fields: {},
        button: 'Revoke all',
        ask: null,
        back: '/settings/account',
      })
    }),
  )

  app.post(
    '/settings/account/revoke-all',
    signedIn(context, { form: '/settings/account' }, async ({ session, by }, request, reply) => {
      const { id } = session.account
      const { tokens, applications } = await revokeAllAccess(db, by, id)
      leaveNotice(
        request,
        reply,
        config,
        `Revoked: ${formatCount(tokens, 'token')}, ${formatCount(applications, 'application')}.`,
      )
      return reply.redirect('/settings/account', 303)
    }),
  )

  app.get(
    deleteUrl,
    signedIn(context, async ({ session }, _request, reply) => showDelete(reply, session, { problem: null })),
  )

  app.post(
    deleteUrl,
    signedIn(context, { form: deleteUrl }, async ({ session, by }, request, reply) => {
      const { account } = session
      const form = readForm(DeleteForm, request)
      if (form.username !== account.username) {
        const problem = 'Type your username to confirm that you want to delete your account.'
        return showDelete(reply.code(400), session, { problem })
      }
      const refused = await refuseWithoutPassword(request, reply, session, form.current_password)
      if (refused) return showDelete(reply, session, { problem: refused })
      const choice = { heir: form.groups_to || null, isLeft: form.leave_groups !== '' }
      const chosen = await chooseHeir(db, account.username, choice)
      if (typeof chosen === 'string') {
        return showDelete(reply.code(400), session, { problem: chosen, asksForGroups: true })
      }
      const { outcome, groups } = await deleteAccount(db, by, account, chosen.orphanedGroups)
      if (outcome === 'refused') {
        const problem = `You are the only admin of ${groups.join(', ')}. Choose below what happens to ${groups.length === 1 ? 'this group' : 'these groups'}.`
        return showDelete(reply.code(409), session, { problem, asksForGroups: true })
      }
      clearCookie(reply, config, 'session')
      leaveFarewell(reply, config, 'account-deleted')
      return reply.redirect('/', 303)
    }),
  )

  async function showSignIn(
    reply: FastifyReply,
    session: Session,
    { problem, entered }: { problem: string | null; entered?: { username: string; email: string } },
  ): Promise<FastifyReply> {
    const about = await ownDetails(context, session)
    return signInPage(reply, session, {
      about,
      shown: entered ?? { username: about.username, email: about.email ?? '' },
      hasMail: config.mail !== null,
      hasPassword: await hasPassword(context, session),
      problem,
    })
  }

  async function showDelete(
    reply: FastifyReply,
    session: Session,
    { problem, asksForGroups = false }: { problem: string | null; asksForGroups?: boolean },
  ): Promise<FastifyReply> {
    return deletePage(reply, session, {
      hasPassword: await hasPassword(context, session),
      asksForGroups,
      problem,
    })
  }

  /** Changes the account. Returns the problem as a sentence, or null. */
  async function change(
    { session: { account }, by }: Pick<Visit, 'session' | 'by'>,
    changes: AccountChanges,
  ): Promise<string | null> {
    try {
      await updateAccount(db, by, account.id, changes)
      return null
    } catch (error) {
      const rule = brokenConstraint(error)
      if (rule === null) throw error
      return describeRule(rule)
    }
  }

  /** Limits the mails to new addresses. After too many, sets the status and returns the reason as a sentence. */
  async function refuseManyMails(reply: FastifyReply, { account }: Session): Promise<string | null> {
    const limit = {
      subject: `verification mails of account ${account.id}`,
      attempts: 10,
      windowSeconds: 3600,
    }
    const blockedSeconds = config.mail === null ? 0 : await countAttempt(db, [limit])
    if (blockedSeconds === 0) return null
    reply.code(429).header('retry-after', `${blockedSeconds}`)
    return 'Your email was changed or verified too often. Try again in an hour.'
  }

  /**
   * An account without a password is confirmed at its provider instead. Returns null when the current password is
   * right. Otherwise sets the status and returns the problem as a sentence.
   */
  async function refuseWithoutPassword(
    request: FastifyRequest,
    reply: FastifyReply,
    session: Session,
    password: string,
  ): Promise<string | null> {
    const { account } = session
    if (!(await hasPassword(context, session))) {
      await requireConfirmation(context, request, session, '/settings/account')
      return null
    }
    const checked = await confirmPassword(db, account.id, password)
    if (!('problem' in checked)) return null
    reply.code(checked.status).headers(checked.headers)
    return checked.status === 403 ? 'Your current password is wrong.' : checked.problem
  }
}

/** Returns the account of a session, with what only its own person and administrators may see. */
export async function ownDetails({ db }: AppContext, { account }: Session): Promise<AccountDetails> {
  const about = await findAccountDetails(db, account.username)
  if (!about) throw new PageError(409, 'Your account was changed a moment ago. Open the page again.')
  return about
}

/** Returns whether an account has a password. One that was created by a sign-in with a provider has none. */
export async function hasPassword({ db }: AppContext, { account }: Session): Promise<boolean> {
  return (await findConfirmationWays(db, account.id)).hasPassword
}

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { normalizeLogin } from '../../../accounts/accounts.ts'
import { acceptInvitation, acceptWithNewAccount } from '../../../accounts/invitation-acceptance.ts'
import { findInvitation, type Invitation } from '../../../accounts/invitations.ts'
import { findPasswordProblem, hashPassword, minPasswordCharacters } from '../../../accounts/passwords.ts'
import { requestSignUpJob } from '../../../accounts/sign-ups.ts'
import type { AppContext } from '../../../context.ts'
import { brokenConstraint } from '../../../database/errors.ts'
import {
  type AttemptLimit,
  countAttempt,
  limitsFrom,
  takeBackAttempt,
} from '../../../database/failure-limit.ts'
import { describeRule } from '../../../database/rules.ts'
import { networkOf } from '../../../domain/client-ip.ts'
import { isEmail } from '../../../domain/email.ts'
import { isPlainText } from '../../../domain/plain-text.ts'
import { enqueue } from '../../../jobs/job.ts'
import { clearCookie, readCookie, setCookie } from '../../cookies.ts'
import { csrfToken } from '../../csrf.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError, pageNotFound } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { browserOf, principalOf } from '../../principal.ts'
import { anybody } from '../../visit.ts'
import { startSession } from './sign-in.ts'

/** How long a browser keeps the token while the person signs in. */
const cookieSeconds = 3600

const trimmed = text.transform((value) => value.trim())
const TokenForm = z.object({ token: text })
const AccountForm = z.object({
  token: text,
  username: trimmed.transform((name) => name.toLowerCase()),
  display_name: trimmed,
  email: trimmed,
  new_password: text,
  repeated_password: text,
})
const SignUpForm = z.object({ email: trimmed })

const invitationPage = page<{
  /** Null when the link does not work. */
  invitation: Invitation | null
  token: string
  /** Whether a new account can be made with it. */
  isForNewAccounts: boolean
  /** Whether people get their accounts when they sign in with a provider. */
  areAccountsFromProviders: boolean
  form: { username: string; display_name: string; email: string }
  problem: string | null
  minPasswordCharacters: number
}>('accounts/invitation')
const signUpPage = page<{ email: string; isRequested: boolean; problem: string | null }>('accounts/sign-up')

/** `/invitations`: the page of an invitation's link. `/sign-up`: the form to ask for an account, with SIGN_UP=open. */
export async function invitationRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  // Redirect the short form of the link (CONTRACT 4.2). In the query the token is not logged.
  app.get<{ Params: { token: string } }>('/invitations/:token', (request, reply) =>
    reply.redirect(`/invitations?token=${encodeURIComponent(request.params.token)}`, 303),
  )

  app.get('/invitations', async (request, reply) => {
    const { token: sent } = readQuery(TokenForm, request)
    // After the sign-in the URL has no token. The database stores that URL, and must not contain secrets.
    const token = sent || readCookie(request, config, 'invitation') || ''
    const invitation = await find(token)
    if (!invitation) reply.code(410)
    else if (sent !== '') setCookie(reply, config, 'invitation', sent, cookieSeconds)
    const form = { username: '', display_name: '', email: invitation?.email ?? '' }
    return show(request, reply, { invitation, token, form, problem: null })
  })

  app.post(
    '/invitations',
    anybody(context, async (session, request, reply) => {
      const { token } = readForm(TokenForm, request)
      const invitation = await find(token)
      if (!session) throw new PageError(403, 'You are signed out. Open the link of the invitation again.')
      // An invitation without a group is for a new account. A signed-in person does not use it up.
      if (invitation?.group === null) {
        leaveNotice(request, reply, config, 'You have an account already.')
        return reply.redirect('/', 303)
      }
      const by = principalOf(request, session)
      const accepted = invitation && (await acceptInvitation(db, by, token, session.account))
      if (!accepted) return showEnded(request, reply)
      clearCookie(reply, config, 'invitation')
      const words =
        accepted.group === null ? 'You have an account already.' : `You are now in ${accepted.group}.`
      leaveNotice(request, reply, config, words)
      return reply.redirect(accepted.group === null ? '/' : `/${accepted.group}`, 303)
    }),
  )

  app.post(
    '/invitations/account',
    anybody(context, async (session, request, reply) => {
      if (session) {
        throw new PageError(409, 'You are already signed in, so you do not need another account.')
      }
      const {
        token,
        new_password: password,
        repeated_password: repeated,
        ...form
      } = readForm(AccountForm, request)
      const invitation = await find(token)
      if (!invitation || !isForNewAccounts(invitation)) return showEnded(request, reply)
      const problem =
        (form.username === '' ? 'Choose a username.' : null) ??
        (isPlainText(form.display_name) ? null : 'A name must be one line of text.') ??
        findPasswordProblem(password, form.username) ??
        (password === repeated ? null : 'The two passwords are not the same.')
      if (problem) return show(request, reply.code(400), { invitation, token, form, problem })
      // Before the hash, because a hash takes time of everybody who signs in.
      const limits = accountLimits(request.ip, token)
      const blockedSeconds = await countAttempt(db, limits)
      if (blockedSeconds > 0) {
        reply.code(429).header('retry-after', `${blockedSeconds}`)
        return show(request, reply, {
          invitation,
          token,
          form,
          problem: 'Too many attempts. Try again in 15 minutes.',
        })
      }
      const about = {
        username: form.username,
        displayName: form.display_name,
        email: form.email || null,
        passwordHash: await hashPassword(password),
      }
      try {
        const made = await acceptWithNewAccount(db, browserOf(request, null), token, about)
        if (!made) return showEnded(request, reply)
        await takeBackAttempt(db, limits)
        clearCookie(reply, config, 'invitation')
        clearCookie(reply, config, 'visit')
        const session = await startSession(context, request, reply, made, { method: 'invitation' })
        const joined = invitation.group === null ? '' : ` You are now in ${invitation.group}.`
        leaveNotice(request, reply, config, `Your account ${form.username} was created.${joined}`, session)
      } catch (error) {
        const rule = brokenConstraint(error)
        if (rule === null) throw error
        return show(request, reply.code(400), { invitation, token, form, problem: describeRule(rule) })
      }
      return reply.redirect(invitation.group === null ? '/' : `/${invitation.group}`, 303)
    }),
  )

  app.get('/sign-up', async (request, reply) => {
    if (!isSignUpOpen(config)) throw pageNotFound()
    return showSignUp(request, reply, { email: '', isRequested: false, problem: null })
  })

  app.post('/sign-up', async (request, reply) => {
    if (!isSignUpOpen(config)) throw pageNotFound()
    const { email } = readForm(SignUpForm, request)
    if (!isEmail(email)) {
      const problem = describeRule('email_is_an_address_max_254_characters')
      return showSignUp(request, reply.code(400), { email, isRequested: false, problem })
    }
    const blockedSeconds = await countAttempt(db, signUpLimits(request.ip, email))
    if (blockedSeconds > 0) {
      reply.code(429).header('retry-after', `${blockedSeconds}`)
      const problem = 'Too many mails were requested. Try again in an hour.'
      return showSignUp(request, reply, { email, isRequested: false, problem })
    }
    await enqueue(db, requestSignUpJob, { email, actor: browserOf(request, null) })
    return showSignUp(request, reply, { email, isRequested: true, problem: null })
  })

  /** Finds the invitation of a token. The link of a sign-up stops working when SIGN_UP is no longer open. */
  async function find(token: string): Promise<Invitation | null> {
    const invitation = token === '' ? null : await findInvitation(db, token)
    return invitation?.madeBy === 'sign-up' && config.signUp !== 'open' ? null : invitation
  }

  function isForNewAccounts({ madeBy }: Invitation): boolean {
    // A new account needs a password. Without password sign-in, a provider creates the accounts.
    if (config.passwordSignIn !== 'on') return false
    return config.signUp === 'open' || (config.signUp === 'invited' && madeBy !== 'sign-up')
  }

  async function show(
    request: FastifyRequest,
    reply: FastifyReply,
    content: {
      invitation: Invitation | null
      token: string
      form: { username: string; display_name: string; email: string }
      problem: string | null
    },
  ): Promise<FastifyReply> {
    const { invitation } = content
    return invitationPage(reply, await visitorOf(request, reply), {
      ...content,
      isForNewAccounts: invitation !== null && isForNewAccounts(invitation),
      areAccountsFromProviders: config.signUp !== 'closed' && config.passwordSignIn !== 'on',
      minPasswordCharacters,
    })
  }

  function showEnded(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const form = { username: '', display_name: '', email: '' }
    return show(request, reply.code(410), { invitation: null, token: '', form, problem: null })
  }

  async function showSignUp(
    request: FastifyRequest,
    reply: FastifyReply,
    content: { email: string; isRequested: boolean; problem: string | null },
  ): Promise<FastifyReply> {
    return signUpPage(reply, await visitorOf(request, reply), content)
  }

  async function visitorOf(request: FastifyRequest, reply: FastifyReply) {
    const session = await request.server.findVisitor(request)
    return session ?? { account: null, csrfToken: csrfToken(request, reply, config) }
  }
}

/** Whether people may make accounts themselves. */
function isSignUpOpen({ signUp, passwordSignIn }: AppContext['config']): boolean {
  return signUp === 'open' && passwordSignIn === 'on'
}

/** Limits attempts at an account from an invitation: 20 in 15 minutes with its link, and 100 from one network. */
function accountLimits(ip: string, token: string): AttemptLimit[] {
  return [
    ...limitsFrom(networkOf(ip), { subject: 'new accounts', attempts: 100, windowSeconds: 15 * 60 }),
    { subject: `new account with ${token}`, attempts: 20, windowSeconds: 15 * 60 },
  ]
}

/**
 * Limits mails to one email (5 an hour), from one network (10) and in total (1000), because anybody can request them.
 */
function signUpLimits(ip: string, email: string): AttemptLimit[] {
  return [
    ...limitsFrom(networkOf(ip), { subject: 'sign-ups', attempts: 10, windowSeconds: 3600 }),
    { subject: `sign-ups with ${normalizeLogin(email)}`, attempts: 5, windowSeconds: 3600 },
    { subject: 'sign-ups', attempts: 1000, windowSeconds: 3600 },
  ]
}

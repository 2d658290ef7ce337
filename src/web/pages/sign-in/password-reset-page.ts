import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { findCredentials, isAdministrator, normalizeLogin } from '../../../accounts/accounts.ts'
import { requestPasswordResetJob } from '../../../accounts/password-reset-mail.ts'
import { findResetAccount, spendResetToken } from '../../../accounts/password-resets.ts'
import {
  findPasswordProblem,
  mayUsePassword,
  minPasswordCharacters,
  noPasswordHere,
} from '../../../accounts/passwords.ts'
import { findKnownOrigin, type SignInOrigin } from '../../../accounts/sign-in-origins.ts'
import type { AppContext } from '../../../context.ts'
import type { Queryable } from '../../../database/database.ts'
import { type AttemptLimit, countAttempt, limitsFrom } from '../../../database/failure-limit.ts'
import { enqueue } from '../../../jobs/job.ts'
import { csrfToken } from '../../csrf.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { browserOf } from '../../principal.ts'
import { signInOriginOf } from '../../sign-in-origin.ts'
import { admitAfterReset } from './sign-in.ts'

const resetPage = page<{
  /** Null when the link does not work, or there is none. */
  username: string | null
  token: string
  problem: string | null
  isDone: boolean
  /** Whether more than the sessions ends, or has ended. */
  endsEverything: boolean
  /** Why the new password does not sign in. Null when it does. */
  obstacle: string | null
  /** Whether a link can be requested by mail. */
  hasMail: boolean
  /** True after a link was requested. */
  isRequested: boolean
  minPasswordCharacters: number
}>('accounts/password-reset')

// The token is in the query, because the log contains the path.
const ResetQuery = z.object({ token: text })
const ResetForm = z.object({
  token: text,
  new_password: text,
  repeated_password: text,
  end_everything: z.literal('yes').optional(),
})

const RequestForm = z.object({ login: text.transform((login) => login.trim()) })

/**
 * A network requests the mail for one name at most 5 times an hour, and all mails together 20 times. All networks
 * together request the mail for one name 10 times. A network from which the account signed in before does not count
 * there, and a browser that signed in before has its own limit: nobody else can use up the mails of a person.
 */
async function limitsOf(db: Queryable, login: string, origin: SignInOrigin): Promise<AttemptLimit[]> {
  const { network, deviceHash } = origin
  const name = normalizeLogin(login)
  // The same statements for an unknown account: no account has the id 0.
  const accountId = (await findCredentials(db, login))?.accountId ?? '0'
  const { isKnownDevice, isKnownNetwork } = await findKnownOrigin(db, accountId, origin)
  if (isKnownDevice) {
    const subject = `password reset of account ${accountId} from browser ${deviceHash?.toString('hex')}`
    return [{ subject, attempts: 5, windowSeconds: 3600 }]
  }
  const everywhere = { subject: `password reset of ${name}`, attempts: 10, windowSeconds: 3600 }
  return [
    ...limitsFrom(network, { subject: 'password reset', attempts: 20, windowSeconds: 3600 }),
    ...limitsFrom(network, { subject: `password reset of ${name}`, attempts: 5, windowSeconds: 3600 }),
    ...(isKnownNetwork ? [] : [everywhere]),
  ]
}

const deadLink = 'This link no longer works: it was used, it has expired, or a newer one was created.'

/** `/password-reset`: the form that requests a link by mail, and the page of the link that sets a new password. */
export async function passwordResetRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/password-reset', async (request, reply) => {
    const { token } = readQuery(ResetQuery, request)
    const account = token === '' ? null : await findResetAccount(db, token)
    const problem = token !== '' && !account ? deadLink : null
    if (problem) reply.code(410)
    return show(context, request, reply, { username: account?.username ?? null, token, problem })
  })

  app.post('/password-reset/request', async (request, reply) => {
    const nothing = { username: null, token: '' }
    if (config.mail === null) return show(context, request, reply.code(404), { ...nothing, problem: null })
    const { login } = readForm(RequestForm, request)
    if (login === '' || login.length > 254) {
      const problem = 'Enter your username or email.'
      return show(context, request, reply.code(400), { ...nothing, problem })
    }
    // Count the entered name even if there is no such account, so that the limits do not show which accounts exist.
    const blockedSeconds = await countAttempt(db, await limitsOf(db, login, signInOriginOf(request, config)))
    if (blockedSeconds > 0) {
      reply.code(429).header('retry-after', `${blockedSeconds}`)
      const problem =
        'Too many mails were requested. If one arrived in the last hour, the link in the newest one still works. Otherwise try again in an hour, or from a browser in which you signed in before.'
      return show(context, request, reply, { ...nothing, problem })
    }
    await enqueue(db, requestPasswordResetJob, { login, actor: browserOf(request, null) })
    return show(context, request, reply, { ...nothing, problem: null, isRequested: true })
  })

  app.post('/password-reset', async (request, reply) => {
    const form = readForm(ResetForm, request)
    const { token, new_password: chosen, repeated_password: repeated } = form
    const endsEverything = form.end_everything === 'yes'
    const account = await findResetAccount(db, token)
    if (!account) {
      return show(context, request, reply.code(410), { username: null, token: '', problem: deadLink })
    }
    const { username } = account
    const problem =
      findPasswordProblem(chosen, username) ??
      (chosen === repeated ? null : 'The two new passwords are not the same.')
    if (problem) {
      return show(context, request, reply.code(400), { username, token, problem, endsEverything })
    }
    if (!(await spendResetToken(db, browserOf(request, null), token, chosen, endsEverything))) {
      return show(context, request, reply.code(410), { username: null, token: '', problem: deadLink })
    }
    await admitAfterReset(context, request, reply, account.id)
    const isUsable = mayUsePassword(config, await isAdministrator(db, account.id))
    const obstacle = isUsable ? null : noPasswordHere(config)
    return show(context, request, reply, {
      username,
      token: '',
      problem: null,
      isDone: true,
      endsEverything,
      obstacle,
    })
  })
}

function show(
  { config }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  content: {
    username: string | null
    token: string
    problem: string | null
    isDone?: boolean
    endsEverything?: boolean
    obstacle?: string | null
    isRequested?: boolean
  },
): FastifyReply {
  const visitor = { account: null, csrfToken: csrfToken(request, reply, config) }
  const hasMail = config.mail !== null
  return resetPage(reply, visitor, {
    isDone: false,
    endsEverything: false,
    obstacle: null,
    isRequested: false,
    ...content,
    hasMail,
    minPasswordCharacters,
  })
}

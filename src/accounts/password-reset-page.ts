import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../context.ts'
import { actorOf } from '../http/actor.ts'
import { csrfToken } from '../http/csrf.ts'
import { type AttemptLimit, countAttempt, networkOf } from '../http/failure-limit.ts'
import { readForm, readQuery, text } from '../http/forms.ts'
import { page } from '../http/pages.ts'
import { enqueue } from '../jobs/job.ts'
import { requestPasswordResetJob } from './password-reset-mail.ts'
import { findResetAccount, spendResetToken } from './password-resets.ts'
import { findPasswordProblem, minPasswordCharacters } from './passwords.ts'

const resetPage = page<{
  /** Null when the link does not work, or there is none. */
  username: string | null
  token: string
  problem: string | null
  isDone: boolean
  /** Whether a link can be requested by mail. */
  hasMail: boolean
  /** True after a link was requested. */
  isRequested: boolean
  minPasswordCharacters: number
}>('accounts/password-reset')

// The token is in the query, because the log contains the path.
const ResetQuery = z.object({ token: text })
const ResetForm = z.object({ token: text, new_password: text, repeated_password: text })

const RequestForm = z.object({ login: text.transform((login) => login.trim()) })

/**
 * Limits of mails in an hour: 20 from one network, 5 of them for one account, and 10 for one account from all networks.
 */
function limitsOf(ip: string, login: string): AttemptLimit[] {
  const network = networkOf(ip)
  const name = login.toLowerCase()
  return [
    { subject: `password reset from ${network}`, attempts: 20, windowSeconds: 3600 },
    { subject: `password reset of ${name} from ${network}`, attempts: 5, windowSeconds: 3600 },
    { subject: `password reset of ${name}`, attempts: 10, windowSeconds: 3600 },
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
    const blockedSeconds = await countAttempt(db, limitsOf(request.ip, login))
    if (blockedSeconds > 0) {
      reply.code(429).header('retry-after', `${blockedSeconds}`)
      const problem = 'Too many mails were requested. Try again in an hour.'
      return show(context, request, reply, { ...nothing, problem })
    }
    await enqueue(db, requestPasswordResetJob, { login, actor: actorOf(request, null) })
    return show(context, request, reply, { ...nothing, problem: null, isRequested: true })
  })

  app.post('/password-reset', async (request, reply) => {
    const { token, new_password: chosen, repeated_password: repeated } = readForm(ResetForm, request)
    const account = await findResetAccount(db, token)
    if (!account) {
      return show(context, request, reply.code(410), { username: null, token: '', problem: deadLink })
    }
    const { username } = account
    const problem =
      findPasswordProblem(chosen, username) ??
      (chosen === repeated ? null : 'The two new passwords are not the same.')
    if (problem) return show(context, request, reply.code(400), { username, token, problem })
    if (!(await spendResetToken(db, actorOf(request, null), token, chosen))) {
      return show(context, request, reply.code(410), { username: null, token: '', problem: deadLink })
    }
    return show(context, request, reply, { username, token: '', problem: null, isDone: true })
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
    isRequested?: boolean
  },
): FastifyReply {
  const visitor = { account: null, csrfToken: csrfToken(request, reply, config) }
  const hasMail = config.mail !== null
  return resetPage(reply, visitor, {
    isDone: false,
    isRequested: false,
    ...content,
    hasMail,
    minPasswordCharacters,
  })
}

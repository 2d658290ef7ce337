import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../context.ts'
import { actorOf } from '../http/actor.ts'
import { csrfToken } from '../http/csrf.ts'
import { readForm, readQuery, text } from '../http/forms.ts'
import { page } from '../http/pages.ts'
import { findResetAccount, spendResetToken } from './password-resets.ts'
import { findPasswordProblem, minPasswordCharacters } from './passwords.ts'

const resetPage = page<{
  /** Null: the link does not work, or there is none. */
  username: string | null
  token: string
  problem: string | null
  isDone: boolean
  minPasswordCharacters: number
}>('accounts/password-reset')

// In the query, because the log keeps the path.
const ResetQuery = z.object({ token: text })
const ResetForm = z.object({ token: text, new_password: text, repeated_password: text })

const deadLink = 'This link does not work any more: it was used, it is too old, or a newer one was made.'

/** `/password-reset`: a new password by a link that an administrator made. */
export async function passwordResetRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { db } = context

  app.get('/password-reset', async (request, reply) => {
    const { token } = readQuery(ResetQuery, request)
    const account = token === '' ? null : await findResetAccount(db, token)
    const problem = token !== '' && !account ? deadLink : null
    if (problem) reply.code(410)
    return show(context, request, reply, { username: account?.username ?? null, token, problem })
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
  content: { username: string | null; token: string; problem: string | null; isDone?: boolean },
): FastifyReply {
  const visitor = { account: null, csrfToken: csrfToken(request, reply, config) }
  return resetPage(reply, visitor, { isDone: false, ...content, minPasswordCharacters })
}

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../context.ts'
import { actorOf } from '../http/actor.ts'
import { csrfToken } from '../http/csrf.ts'
import { readForm, readQuery, text } from '../http/forms.ts'
import { leaveNotice } from '../http/notice.ts'
import { page } from '../http/pages.ts'
import { findVerification, spendVerificationToken } from './email-verifications.ts'
import { readSession } from './visitor.ts'

const verificationPage = page<{
  /** Null when the link does not work. */
  pending: { username: string; email: string } | null
  token: string
  isDone: boolean
}>('accounts/email-verification')

// The token is in the query, because the log contains the path.
const TokenForm = z.object({ token: text })

/**
 * `/settings/email-verification`: the page of a link that verifies an email. Opening it only shows a button: programs
 * that check the links of a mail open it too, and must not verify an email that a stranger has entered.
 */
export async function emailVerificationRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/settings/email-verification', async (request, reply) => {
    const { token } = readQuery(TokenForm, request)
    const pending = token === '' ? null : await findVerification(db, token)
    if (!pending) reply.code(410)
    return show(request, reply, { pending, token, isDone: false })
  })

  app.post('/settings/email-verification', async (request, reply) => {
    const { token } = readForm(TokenForm, request)
    const session = await readSession(context, request)
    const pending = await findVerification(db, token)
    const isDone = await spendVerificationToken(db, actorOf(request, session?.account.id ?? null), token)
    if (!isDone) return show(request, reply.code(410), { pending: null, token: '', isDone })
    if (session?.account.id !== pending?.accountId)
      return show(request, reply, { pending, token: '', isDone })
    leaveNotice(request, reply, config, 'Your email address is verified.')
    return reply.redirect('/settings/account', 303)
  })

  function show(
    request: FastifyRequest,
    reply: FastifyReply,
    content: { pending: { username: string; email: string } | null; token: string; isDone: boolean },
  ): FastifyReply {
    const visitor = { account: null, csrfToken: csrfToken(request, reply, config) }
    return verificationPage(reply, visitor, content)
  }
}

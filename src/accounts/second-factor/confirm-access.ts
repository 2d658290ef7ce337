import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../../context.ts'
import { actorOf } from '../../http/actor.ts'
import { readForm, readQuery, text } from '../../http/forms.ts'
import { leaveNotice } from '../../http/notice.ts'
import { page } from '../../http/pages.ts'
import { redirectBack } from '../complete-sign-in.ts'
import { confirmSession, type Session } from '../sessions.ts'
import { confirmPassword } from '../sign-in.ts'
import { readSession, redirectToSignIn } from '../visitor.ts'
import { refuseFactor } from './check-factor.ts'
import { type FactorSummary, findFactors } from './factors.ts'

const confirmPage = page<{
  factors: FactorSummary
  returnId: string
  /** Whether the browser comes from a form. Its page then says that nothing was done yet. */
  isForm: boolean
  problem: string | null
}>('accounts/confirm-access')

const ConfirmQuery = z.object({ return: text, form: text })
const ConfirmForm = ConfirmQuery.extend({ current_password: text, code: text })

/** `/settings/confirm-access`: a password or a code before a sensitive act, 15 minutes after the last one. */
export async function confirmAccessRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/settings/confirm-access', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply)
    const { return: returnId, form } = readQuery(ConfirmQuery, request)
    return show(reply, session, { returnId, isForm: form !== '', problem: null })
  })

  app.post('/settings/confirm-access', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply, '/settings/confirm-access')
    const { return: returnId, form, ...typed } = readForm(ConfirmForm, request)
    const refused = await refuseProof(request, session, typed)
    if (refused) {
      reply.code(refused.status).headers(refused.headers)
      return show(reply, session, { returnId, isForm: form !== '', problem: refused.problem })
    }
    await confirmSession(db, session.idHash)
    if (form !== '') {
      leaveNotice(request, reply, config, 'Thank you. Nothing was done yet: please send the form again.')
    }
    return redirectBack(context, reply, returnId)
  })

  async function refuseProof(
    request: FastifyRequest,
    { account: { id } }: Session,
    { code, current_password: password }: { code: string; current_password: string },
  ) {
    if (code !== '') {
      const typed = { code, recoveryCode: '' }
      return refuseFactor({ config, db, log: request.log }, actorOf(request, id), id, typed)
    }
    const checked = await confirmPassword(db, id, password)
    if (!('problem' in checked)) return null
    return checked.status === 403 ? { ...checked, problem: 'This password is not right.' } : checked
  }

  async function show(
    reply: FastifyReply,
    session: Session,
    shown: { returnId: string; isForm: boolean; problem: string | null },
  ): Promise<FastifyReply> {
    return confirmPage(reply, session, { ...shown, factors: await findFactors(db, session.account.id) })
  }
}

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import {
  type FactorKind,
  kindOfTyped,
  spendFactor,
  type TypedFactor,
} from '../../../accounts/second-factor/check-factor.ts'
import { type FactorSummary, findFactors } from '../../../accounts/second-factor/factors.ts'
import { allowsPasskeys } from '../../../accounts/second-factor/passkey-ceremony.ts'
import { deleteSignInStep, type SignInStep } from '../../../accounts/second-factor/sign-in-steps.ts'
import type { AppContext } from '../../../context.ts'
import { clearCookie } from '../../cookies.ts'
import { csrfToken } from '../../csrf.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { page } from '../../pages.ts'
import { browserOf } from '../../principal.ts'
import { factorContextOf } from '../../sign-in-origin.ts'
import { withReturn } from '../../visit.ts'
import { factorHome } from '../account/factor-page.ts'
import { type Destination, findDestination } from './destination.ts'
import { linkAfterSecondStep } from './link-with-password.ts'
import { completeSignIn, redirectBack } from './sign-in.ts'
import { readWaitingStep, type WaitingStep } from './waiting-step.ts'

const stepPage = page<{
  username: string
  destination: Destination | null
  factors: FactorSummary
  /** The page that asks for a passkey; null where browsers allow none. */
  passkeyUrl: string | null
  returnId: string
  problem: string | null
  usesRecovery: boolean
  /** Whether the step also links the account with a provider. */
  isLink: boolean
}>('accounts/second-step')

const StepQuery = z.object({ return: text })
const StepForm = z.object({ return: text, code: text, recovery_code: text })

/** Said to a person who used a recovery code, on the page of the second factors. */
const usedRecoveryCode = 'You are signed in with a recovery code, which does not work again.'

/** `/login/second-factor`: the second step of a sign-in. It works only in the browser that gave the password. */
export async function secondStepRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get('/login/second-factor', async (request, reply) => {
    const { return: returnId } = readQuery(StepQuery, request)
    const found = await readWaitingStep(context, request)
    if (!found) return reply.redirect(withReturn('/login', returnId), 303)
    return show(context, request, reply, found.step, { returnId, problem: null })
  })

  app.post('/login/second-factor', async (request, reply) => {
    const { return: returnId, code, recovery_code: recoveryCode } = readForm(StepForm, request)
    const found = await readWaitingStep(context, request)
    if (!found) return reply.redirect(withReturn('/login', returnId), 303)
    const { step } = found
    const by = browserOf(request, step.accountId)
    const typed = { code, recoveryCode }
    const refused = await spendFactor(factorContextOf(context, request), by, step.accountId, typed)
    if (refused) {
      reply.code(refused.status).headers(refused.headers)
      return show(context, request, reply, step, { returnId, problem: refused.problem, typed })
    }
    return finishStep(context, request, reply, found, { returnId, secondFactor: kindOfTyped(typed) })
  })
}

/**
 * Signs in, or links the person of a provider and signs in, after the second factor of a waiting step was given. A step
 * works once.
 */
export async function finishStep(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { id, step }: WaitingStep,
  { returnId, secondFactor }: { returnId: string; secondFactor: FactorKind },
): Promise<FastifyReply> {
  clearCookie(reply, context.config, 'step')
  const isFirst = await deleteSignInStep(context.db, id)
  const { proofHash } = step
  if (isFirst && proofHash !== null) {
    return linkAfterSecondStep(context, request, reply, { proofHash, credentials: step, secondFactor })
  }
  const proof = { method: 'password', secondFactor } as const
  const session = isFirst ? await completeSignIn(context, request, reply, step, proof) : null
  if (session === null) return reply.redirect(withReturn('/login', returnId), 303)
  if (secondFactor !== 'recovery-code' || returnId !== '') return redirectBack(context, reply, returnId)
  leaveNotice(request, reply, context.config, usedRecoveryCode, session)
  return reply.redirect(factorHome, 303)
}

async function show(
  context: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { accountId, username, proofHash }: SignInStep,
  { returnId, problem, typed }: { returnId: string; problem: string | null; typed?: TypedFactor },
): Promise<FastifyReply> {
  const { config, db } = context
  const visitor = { account: null, csrfToken: csrfToken(request, reply, config) }
  const usesRecovery = typed !== undefined && typed.recoveryCode !== ''
  const factors = await findFactors(db, accountId)
  const passkeyUrl = allowsPasskeys(config) ? withReturn('/login/passkey', returnId) : null
  const isLink = proofHash !== null
  const destination = await findDestination(context, returnId)
  const content = { username, destination, factors, passkeyUrl, returnId, problem, usesRecovery, isLink }
  return stepPage(reply, visitor, content)
}

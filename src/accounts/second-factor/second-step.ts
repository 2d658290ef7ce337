import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../../context.ts'
import { actorOf } from '../../http/actor.ts'
import { clearCookie, readCookie, setCookie } from '../../http/cookies.ts'
import { csrfToken } from '../../http/csrf.ts'
import { readForm, readQuery, text } from '../../http/forms.ts'
import { page } from '../../http/pages.ts'
import type { Credentials } from '../accounts.ts'
import { completeSignIn, redirectBack } from '../sign-in.ts'
import { withReturn } from '../visitor.ts'
import { kindOfTyped, refuseFactor, type TypedFactor } from './check-factor.ts'
import { type FactorSummary, findFactors } from './factors.ts'
import { allowsPasskeys } from './passkey-ceremony.ts'
import { deleteSignInStep, findSignInStep, insertSignInStep, type SignInStep } from './sign-in-steps.ts'

const stepPage = page<{
  username: string
  factors: FactorSummary
  /** The page that asks for a passkey; null where browsers allow none. */
  passkeyUrl: string | null
  returnId: string
  problem: string | null
  usesRecovery: boolean
}>('accounts/second-step')

const StepQuery = z.object({ return: text })
const StepForm = z.object({ return: text, code: text, recovery_code: text })

/** Redirects a browser that gave the right password to the page that asks for the second factor. */
export async function redirectToSecondStep(
  { config, db }: AppContext,
  reply: FastifyReply,
  credentials: Credentials,
  returnId: string,
): Promise<FastifyReply> {
  setCookie(reply, config, 'step', await insertSignInStep(db, credentials))
  return reply.redirect(withReturn('/login/second-factor', returnId), 303)
}

/** `/login/second-factor`: the second step of a sign-in. It works only in the browser that gave the password. */
export async function secondStepRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

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
    const { id, step } = found
    const actor = actorOf(request, step.accountId)
    const typed = { code, recoveryCode }
    const refused = await refuseFactor({ config, db, log: request.log }, actor, step.accountId, typed)
    if (refused) {
      reply.code(refused.status).headers(refused.headers)
      return show(context, request, reply, step, { returnId, problem: refused.problem, typed })
    }
    clearCookie(reply, config, 'step')
    const isFirst = await deleteSignInStep(db, id)
    const proof = { method: 'password', secondFactor: kindOfTyped(typed) } as const
    const isSignedIn = isFirst && (await completeSignIn(context, request, reply, step, proof))
    return isSignedIn
      ? redirectBack(context, reply, returnId)
      : reply.redirect(withReturn('/login', returnId), 303)
  })
}

/** A sign-in that waits for its second factor. `id` is the browser's cookie. */
export interface WaitingStep {
  id: string
  step: SignInStep
}

/** Returns the sign-in of this browser that waits for its second factor. Null without one. */
export async function readWaitingStep(
  { config, db }: AppContext,
  request: FastifyRequest,
): Promise<WaitingStep | null> {
  const id = readCookie(request, config, 'step')
  const step = id === null ? null : await findSignInStep(db, id)
  return id !== null && step ? { id, step } : null
}

async function show(
  { config, db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  { accountId, username }: SignInStep,
  { returnId, problem, typed }: { returnId: string; problem: string | null; typed?: TypedFactor },
): Promise<FastifyReply> {
  const visitor = { account: null, csrfToken: csrfToken(request, reply, config) }
  const usesRecovery = typed !== undefined && typed.recoveryCode !== ''
  const factors = await findFactors(db, accountId)
  const passkeyUrl = allowsPasskeys(config) ? withReturn('/login/passkey', returnId) : null
  return stepPage(reply, visitor, { username, factors, passkeyUrl, returnId, problem, usesRecovery })
}

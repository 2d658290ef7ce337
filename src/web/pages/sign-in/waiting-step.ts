import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Credentials } from '../../../accounts/accounts.ts'
import {
  findSignInStep,
  insertSignInStep,
  type SignInStep,
} from '../../../accounts/second-factor/sign-in-steps.ts'
import type { AppContext } from '../../../context.ts'
import type { SecretHash } from '../../../domain/secrets.ts'
import { readCookie, setCookie } from '../../cookies.ts'
import { withReturn } from '../../visit.ts'

/** A sign-in that waits for its second factor. `id` is the browser's cookie. */
export interface WaitingStep {
  id: string
  step: SignInStep
}

/**
 * Redirects a browser that gave the right password to the page that asks for the second factor. `proofHash` names the
 * person of a provider that the second factor links; null for a sign-in.
 */
export async function redirectToSecondStep(
  { config, db }: AppContext,
  reply: FastifyReply,
  credentials: Credentials,
  returnId: string,
  proofHash: SecretHash | null = null,
): Promise<FastifyReply> {
  setCookie(reply, config, 'step', await insertSignInStep(db, credentials, proofHash))
  return reply.redirect(withReturn('/login/second-factor', returnId), 303)
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

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../../context.ts'
import { actorOf } from '../../http/actor.ts'
import { networkOf } from '../../http/client-ip.ts'
import { clearCookie } from '../../http/cookies.ts'
import { csrfToken } from '../../http/csrf.ts'
import { type AttemptLimit, countAttempt, limitsFrom, takeBackAttempt } from '../../http/failure-limit.ts'
import { readForm, readQuery, text } from '../../http/forms.ts'
import { page } from '../../http/pages.ts'
import { findCredentialsById, isAdministrator } from '../accounts.ts'
import { mayUsePassword } from '../passwords.ts'
import { completeSignIn, redirectBack } from '../sign-in.ts'
import { readSession, withReturn } from '../visitor.ts'
import { type FactorRefusal, limitOf, noteFailedFactor, tooManyFactors } from './check-factor.ts'
import { allowsPasskeys, finishUse, startUse } from './passkey-ceremony.ts'
import type { ChallengeOwner } from './passkey-challenges.ts'
import { finishStep } from './second-step.ts'
import { readWaitingStep, type WaitingStep } from './waiting-step.ts'

const passkeyPage = page<{
  /** The account in the second step of a sign-in. Null when the passkey replaces the password. */
  username: string | null
  /** Whether the second step also links the account with a provider. */
  isLink: boolean
  /** The options for the browser's passkey API, as JSON. */
  options: string
  returnId: string
  back: string
  problem: string | null
}>('accounts/passkey-sign-in')

const PasskeyQuery = z.object({ return: text })
const PasskeyForm = z.object({ csrf_token: text, return: text, credential: text })

/**
 * `/login/passkey`: a passkey instead of the password, or as the second step after it. It is separate from `/login`,
 * because browsers offer passkeys to scripts only, and the pages that lead to applications allow no script (OAUTH 41).
 * This one allows the scripts of this server, and like `/login` it has no `form-action`.
 */
export async function passkeySignInRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context
  if (!allowsPasskeys(config)) return

  app.get('/login/passkey', async (request, reply) => {
    const { return: returnId } = readQuery(PasskeyQuery, request)
    if (await readSession(context, request)) return redirectBack(context, reply, returnId)
    return show(request, reply, await readWaitingStep(context, request), { returnId, problem: null })
  })

  app.post('/login/passkey', async (request, reply) => {
    const { csrf_token: browser, return: returnId, credential } = readForm(PasskeyForm, request)
    const waiting = await readWaitingStep(context, request)
    const owner = ownerOf(browser, waiting)
    const used = await usePasskey(request, credential, owner)
    if ('problem' in used) {
      reply.code(used.status).headers(used.headers)
      return show(request, reply, waiting, { returnId, problem: used.problem })
    }
    const { accountId } = used
    if (!waiting && !mayUsePassword(config, await isAdministrator(db, accountId))) {
      // PASSWORD_SIGN_IN also applies to a passkey that replaces the password.
      return show(request, reply.code(403), null, { returnId, problem: 'Sign in with a provider here.' })
    }
    if (waiting) {
      return finishStep(context, request, reply, waiting, { returnId, secondFactor: 'passkey' })
    }
    clearCookie(reply, config, 'step')
    const credentials = await findCredentialsById(db, accountId)
    const isSignedIn =
      credentials && (await completeSignIn(context, request, reply, credentials, { method: 'passkey' }))
    return isSignedIn
      ? redirectBack(context, reply, returnId)
      : reply.redirect(withReturn('/login', returnId), 303)
  })

  /** Returns the account of the passkey, or the refusal. */
  async function usePasskey(
    request: FastifyRequest,
    sent: string,
    owner: ChallengeOwner,
  ): Promise<{ accountId: string } | FactorRefusal> {
    const { accountId: known } = owner
    const limits = known === null ? limitsOfNetwork(request) : [limitOf(known)]
    const blockedSeconds = await countAttempt(db, limits)
    if (blockedSeconds > 0) return tooManyFactors(blockedSeconds)
    const used = await finishUse(context, sent, owner)
    if (used === 'expired') {
      // It says nothing about the passkey. Counted, it would block the second factors of the account.
      if (known !== null) await takeBackAttempt(db, limits)
      return expiredPasskey
    }
    if (used !== 'rejected') {
      await takeBackAttempt(db, limits, limits)
      return used
    }
    if (known !== null) await noteFailedFactor(db, actorOf(request, known), known, 'passkey')
    return wrongPasskey
  }

  async function show(
    request: FastifyRequest,
    reply: FastifyReply,
    waiting: WaitingStep | null,
    { returnId, problem }: { returnId: string; problem: string | null },
  ): Promise<FastifyReply> {
    const browser = csrfToken(request, reply, config)
    return passkeyPage(
      reply,
      { account: null, csrfToken: browser },
      {
        username: waiting?.step.username ?? null,
        isLink: (waiting?.step.proofHash ?? null) !== null,
        options: await startUse(context, ownerOf(browser, waiting)),
        returnId,
        back: withReturn(waiting ? '/login/second-factor' : '/login', returnId),
        problem,
      },
    )
  }
}

/** The refusal of a passkey. */
export const wrongPasskey: FactorRefusal = {
  status: 403,
  headers: {},
  problem: 'This passkey was not accepted: this account does not have it. Try again, or use another one.',
}

/** The refusal of a page whose challenge is gone. */
export const expiredPasskey: FactorRefusal = {
  status: 403,
  headers: {},
  problem: 'This page was open for too long, or was sent before. Your passkey was not checked. Try again.',
}

function ownerOf(browser: string, waiting: WaitingStep | null): ChallengeOwner {
  return waiting
    ? { browser, accountId: waiting.step.accountId, purpose: 'second-step' }
    : { browser, accountId: null, purpose: 'sign-in' }
}

function limitsOfNetwork({ ip }: FastifyRequest): AttemptLimit[] {
  return limitsFrom(networkOf(ip), { subject: 'passkey', attempts: 100, windowSeconds: 900 })
}

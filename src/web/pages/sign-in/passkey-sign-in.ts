import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { findCredentialsById, isAdministrator } from '../../../accounts/accounts.ts'
import { mayUsePassword } from '../../../accounts/passwords.ts'
import { checkPasskey } from '../../../accounts/second-factor/check-passkey.ts'
import { allowsPasskeys, startUse } from '../../../accounts/second-factor/passkey-ceremony.ts'
import { type ChallengeOwner, signInChallenge } from '../../../accounts/second-factor/passkey-challenges.ts'
import type { AppContext } from '../../../context.ts'
import { clearCookie } from '../../cookies.ts'
import { csrfToken } from '../../csrf.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { passkeySenderOf } from '../../sign-in-origin.ts'
import { anybody, withReturn } from '../../visit.ts'
import { type Destination, findDestination } from './destination.ts'
import { finishStep } from './second-step.ts'
import { completeSignIn, redirectBack } from './sign-in.ts'
import { readWaitingStep, type WaitingStep } from './waiting-step.ts'

const passkeyPage = page<{
  /** The account in the second step of a sign-in. Null when the passkey replaces the password. */
  username: string | null
  destination: Destination | null
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
 * `/login/passkey`: a passkey instead of the password, or as the second step after it. Browsers offer passkeys to scripts
 * only, so the page allows the scripts of this server. Like `/login` it has no `form-action` (OAUTH 41).
 */
export async function passkeySignInRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context
  if (!allowsPasskeys(config)) return

  app.get(
    '/login/passkey',
    anybody(context, async (session, request, reply) => {
      const { return: returnId } = readQuery(PasskeyQuery, request)
      if (session) return redirectBack(context, reply, returnId)
      return show(request, reply, await readWaitingStep(context, request), { returnId, problem: null })
    }),
  )

  app.post('/login/passkey', async (request, reply) => {
    const { csrf_token: browser, return: returnId, credential } = readForm(PasskeyForm, request)
    const waiting = await readWaitingStep(context, request)
    const owner = ownerOf(browser, waiting)
    const used = await checkPasskey(context, passkeySenderOf(request, context.config), credential, owner)
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
        destination: await findDestination(context, returnId),
        isLink: (waiting?.step.proofHash ?? null) !== null,
        options: await startUse(context, ownerOf(browser, waiting)),
        returnId,
        back: withReturn(waiting ? '/login/second-factor' : '/login', returnId),
        problem,
      },
    )
  }
}

function ownerOf(browser: string, waiting: WaitingStep | null): ChallengeOwner {
  return waiting
    ? { browser, accountId: waiting.step.accountId, purpose: 'second-step' }
    : signInChallenge(browser)
}

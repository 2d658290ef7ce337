import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AppContext } from '../../context.ts'
import { actorOf } from '../../http/actor.ts'
import { readForm, readQuery, text } from '../../http/forms.ts'
import { leaveNotice } from '../../http/notice.ts'
import { page } from '../../http/pages.ts'
import { confirmSession, type Session } from '../sessions.ts'
import { confirmPassword, redirectBack } from '../sign-in.ts'
import { findConfirmationWays } from '../single-sign-on/identities.ts'
import { readSession, redirectToSignIn } from '../visitor.ts'
import { factorContextOf, refuseFactor } from './check-factor.ts'
import { checkPasskey } from './check-passkey.ts'
import { type FactorSummary, findFactors } from './factors.ts'
import { allowsPasskeys, startUse } from './passkey-ceremony.ts'
import type { ChallengeOwner } from './passkey-challenges.ts'

const confirmPage = page<{
  factors: FactorSummary
  hasPassword: boolean
  /** The linked providers where the person can sign in again. */
  providers: readonly { name: string; label: string }[]
  returnId: string
  /** Whether the browser comes from a form. The form's page then says that nothing was done yet. */
  isForm: boolean
  /** The options for the browser's passkey API, as JSON. Null for an account without a passkey. */
  options: string | null
  problem: string | null
}>('accounts/confirm-access')

const ConfirmQuery = z.object({ return: text, form: text })
const ConfirmForm = ConfirmQuery.extend({ current_password: text, code: text, credential: text })

/**
 * `/settings/confirm-access`: asks for a password, a code or a provider when the last proof is older than 15 minutes. It
 * is also open to a person who must set up a second factor, because that needs a recent proof.
 */
export async function confirmAccessRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/settings/confirm-access', async (request, reply) => {
    const session = await readSession(context, request, { mayLackFactor: true })
    if (!session) return redirectToSignIn(context, request, reply)
    const { return: returnId, form } = readQuery(ConfirmQuery, request)
    return show(reply, session, { returnId, isForm: form !== '', problem: null })
  })

  app.post('/settings/confirm-access', async (request, reply) => {
    const session = await readSession(context, request, { mayLackFactor: true })
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
    session: Session,
    { code, credential, current_password: password }: Omit<z.output<typeof ConfirmForm>, 'return' | 'form'>,
  ) {
    if (credential !== '') {
      const checked = await checkPasskey(context, request, credential, ownerOf(session))
      return 'problem' in checked ? checked : null
    }
    const { id } = session.account
    if (code !== '') {
      const typed = { code, recoveryCode: '' }
      return refuseFactor(factorContextOf(context, request), actorOf(request, id), id, typed)
    }
    const checked = await confirmPassword(db, id, password)
    if (!('problem' in checked)) return null
    return checked.status === 403 ? { ...checked, problem: 'This password is wrong.' } : checked
  }

  async function show(
    reply: FastifyReply,
    session: Session,
    shown: { returnId: string; isForm: boolean; problem: string | null },
  ): Promise<FastifyReply> {
    const { id } = session.account
    const factors = await findFactors(db, id)
    const asksPasskey = factors.passkeys > 0 && allowsPasskeys(config)
    const options = asksPasskey ? await startUse(context, ownerOf(session)) : null
    const { hasPassword, issuers } = await findConfirmationWays(db, id)
    const providers = config.providers.filter(({ issuer }) => issuers.includes(issuer))
    return confirmPage(reply, session, { ...shown, factors, options, hasPassword, providers })
  }
}

function ownerOf({ account, csrfToken }: Session): ChallengeOwner {
  return { browser: csrfToken, accountId: account.id, purpose: 'confirm' }
}

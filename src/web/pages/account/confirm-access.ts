import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { CredentialRefusal } from '../../../accounts/credential-refusal.ts'
import { confirmPassword } from '../../../accounts/password-check.ts'
import { spendFactor } from '../../../accounts/second-factor/check-factor.ts'
import { checkPasskey } from '../../../accounts/second-factor/check-passkey.ts'
import {
  confirmationMail,
  findConfirmationEmail,
  insertConfirmationLink,
  isConfirmationLink,
  spendConfirmationLink,
} from '../../../accounts/second-factor/confirmation-links.ts'
import { type FactorSummary, findFactors } from '../../../accounts/second-factor/factors.ts'
import { allowsPasskeys, startUse } from '../../../accounts/second-factor/passkey-ceremony.ts'
import type { ChallengeOwner } from '../../../accounts/second-factor/passkey-challenges.ts'
import { confirmSession, type ProofMethod, type Session } from '../../../accounts/sessions.ts'
import { findConfirmationWays } from '../../../accounts/single-sign-on/identities.ts'
import type { AppContext } from '../../../context.ts'
import { transaction } from '../../../database/database.ts'
import { countAttempt } from '../../../database/failure-limit.ts'
import { queueMail } from '../../../mail/mail-queue.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { continuePath, heldFormOf, resumeUrl } from '../../held-forms.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { factorContextOf, passkeySenderOf } from '../../sign-in-origin.ts'
import { anybody, signedIn, type Visit, withReturn } from '../../visit.ts'
import { findReturn } from '../sign-in/return-path.ts'
import { redirectBack } from '../sign-in/sign-in.ts'

/**
 * Whether the browser comes from a form: it is `held` and sent after the confirmation, or `lost`, because it cannot be
 * kept. Then its page says that nothing was done yet. Empty for a page.
 */
type FromForm = '' | 'held' | 'lost'

/** The proof that the next step needs: `factor` is a second factor or a passkey, '' any. */
type NeededProof = '' | 'factor'

const continuePage = page<{ action: string; page: string }>('accounts/continue')
const confirmPage = page<{
  factors: FactorSummary
  hasPassword: boolean
  /** The linked providers where the person can sign in again. */
  providers: readonly { name: string; label: string }[]
  returnId: string
  form: FromForm
  need: NeededProof
  /** The options for the browser's passkey API, as JSON. Null for an account without a passkey. */
  options: string | null
  /** The address to which a link can be sent. Null when the account has better proofs, or mails are not sent. */
  email: string | null
  problem: string | null
}>('accounts/confirm-access')

const fromForm = z.enum(['', 'held', 'lost']).default('')
const neededProof = z.enum(['', 'factor']).default('')
const ConfirmForm = z.object({
  return: text,
  form: fromForm,
  need: neededProof,
  current_password: text,
  code: text,
  credential: text,
})
const ConfirmQuery = z.object({ return: text, form: fromForm, need: neededProof, unproven: text })
const MailForm = z.object({ return: text, form: fromForm })
const HeldQuery = z.object({ form: text })
const TokenForm = z.object({ token: text })

/** The link belongs to one session, so that nobody else can use it, or make its person open it for them. */
const noLink =
  'This link works once, for 15 minutes, in the browser in which you asked for it. Ask for another one.'

/**
 * `/settings/confirm-access`: asks for a password, a code, a passkey, a provider or a mailed link when the last proof is
 * older than 15 minutes. Its form may lead to a provider, and it needs the script for passkeys: see `passkeyPolicy`. It is
 * also open to a person who must set up a second factor, because that needs a recent proof.
 */
export async function confirmAccessRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    '/settings/confirm-access',
    signedIn(context, { mayLackFactor: true }, async ({ session }, request, reply) => {
      const { return: returnId, form, need, unproven } = readQuery(ConfirmQuery, request)
      const provider = config.providers.find(({ name }) => name === unproven)
      const problem = provider
        ? `${provider.label} did not say that you signed in again just now, so nothing was confirmed.`
        : null
      return show(reply, session, { returnId, form, need, problem })
    }),
  )

  app.get(
    continuePath,
    signedIn(context, { mayLackFactor: true }, async ({ session, confirm }, request, reply) => {
      const { form: id } = readQuery(HeldQuery, request)
      const { url, page } = await heldFormOf(context, session, id)
      await confirm()
      return continuePage(reply, session, { action: resumeUrl(url, id), page })
    }),
  )

  app.post(
    '/settings/confirm-access/send-link',
    signedIn(
      context,
      { form: '/settings/confirm-access', mayLackFactor: true },
      async ({ session }, request, reply) => {
        const { return: sent, form } = readForm(MailForm, request)
        const returnId = (await findReturn(db, sent)) === null ? '' : sent
        const { id } = session.account
        const email = config.mail && (await findConfirmationEmail(db, id))
        const again = (problem: string) => show(reply, session, { returnId, form, need: '', problem })
        if (email === null) {
          reply.code(409)
          return again('No link can be sent to you. Confirm in another way.')
        }
        const limit = { subject: `confirmation mails of account ${id}`, attempts: 10, windowSeconds: 3600 }
        const blockedSeconds = await countAttempt(db, [limit])
        if (blockedSeconds > 0) {
          reply.code(429).header('retry-after', `${blockedSeconds}`)
          return again('Too many links were sent to you. Use the last one, or try again in an hour.')
        }
        await transaction(db, async (tx) => {
          const linkId = await insertConfirmationLink(tx, session.idHash, returnId)
          await queueMail(tx, config, confirmationMail, { linkId })
        })
        leaveNotice(request, reply, config, `A link was sent to ${email}. Open it in this browser.`)
        return reply.redirect(
          withReturn('/settings/confirm-access', returnId, form === '' ? {} : { form }),
          303,
        )
      },
    ),
  )

  app.get(
    '/settings/confirm-access/link',
    anybody(
      context,
      async (session, request, reply) => {
        const { token } = readQuery(TokenForm, request)
        if (!session || !(await isConfirmationLink(db, session.idHash, token)))
          throw new PageError(410, noLink)
        return confirmationPage(reply, session, {
          title: 'Confirm access',
          explanation: `Confirm that it is you, ${session.account.username}. Then you return to what you wanted to do.`,
          action: '/settings/confirm-access/link',
          fields: { token },
          button: 'Confirm',
          ask: null,
          back: '/',
        })
      },
      { mayLackFactor: true },
    ),
  )

  app.post(
    '/settings/confirm-access/link',
    signedIn(
      context,
      { form: '/settings/confirm-access', mayLackFactor: true },
      async ({ session }, request, reply) => {
        const { token } = readForm(TokenForm, request)
        const returnId = await spendConfirmationLink(db, session.idHash, token)
        if (returnId === null) throw new PageError(410, noLink)
        leaveNotice(request, reply, config, 'Thank you. You can continue now.')
        return redirectBack(context, reply, returnId)
      },
    ),
  )

  app.post(
    '/settings/confirm-access',
    signedIn(
      context,
      { form: '/settings/confirm-access', mayLackFactor: true },
      async ({ session, by }, request, reply) => {
        const { return: returnId, form, need, ...typed } = readForm(ConfirmForm, request)
        const isPassword = typed.credential === '' && typed.code === ''
        const proof =
          need === 'factor' && isPassword ? noFactor : await checkProof(request, { session, by }, typed)
        if (typeof proof !== 'string') {
          reply.code(proof.status).headers(proof.headers)
          return show(reply, session, { returnId, form, need, problem: proof.problem })
        }
        await confirmSession(db, session.idHash, proof)
        if (form === 'lost') {
          leaveNotice(request, reply, config, 'Thank you. Nothing was done yet: please send the form again.')
        }
        return redirectBack(context, reply, returnId)
      },
    ),
  )

  /** Checks the proof that was sent. Returns its method, or the refusal. */
  async function checkProof(
    request: FastifyRequest,
    { session, by }: Pick<Visit, 'session' | 'by'>,
    {
      code,
      credential,
      current_password: password,
    }: Omit<z.output<typeof ConfirmForm>, 'return' | 'form' | 'need'>,
  ): Promise<ProofMethod | CredentialRefusal> {
    if (credential !== '') {
      const checked = await checkPasskey(
        context,
        passkeySenderOf(request, context.config),
        credential,
        ownerOf(session),
      )
      if ('problem' in checked) return checked
      return checked.isPersonVerified ? 'passkey' : 'security-key'
    }
    const { id } = session.account
    if (code !== '') {
      const typed = { code, recoveryCode: '' }
      return (await spendFactor(factorContextOf(context, request), by, id, typed)) ?? 'totp'
    }
    const checked = await confirmPassword(db, id, password)
    if (!('problem' in checked)) return 'password'
    return checked.status === 403 ? { ...checked, problem: 'This password is wrong.' } : checked
  }

  async function show(
    reply: FastifyReply,
    session: Session,
    shown: { returnId: string; form: FromForm; need: NeededProof; problem: string | null },
  ): Promise<FastifyReply> {
    const { id } = session.account
    const factors = await findFactors(db, id)
    const asksPasskey = factors.passkeys > 0 && allowsPasskeys(config)
    const options = asksPasskey ? await startUse(context, ownerOf(session)) : null
    if (shown.need === 'factor') {
      const others = { hasPassword: false, providers: [], email: null }
      return confirmPage(reply, session, { ...shown, factors, options, ...others })
    }
    const { hasPassword, issuers } = await findConfirmationWays(db, id)
    const providers = config.providers.filter(({ issuer }) => issuers.includes(issuer))
    const email = config.mail && (await findConfirmationEmail(db, id))
    return confirmPage(reply, session, { ...shown, factors, options, hasPassword, providers, email })
  }
}

const noFactor = {
  status: 403,
  headers: {},
  problem: 'This needs a passkey, or a code of your authenticator app.',
}

function ownerOf({ account, csrfToken }: Session): ChallengeOwner {
  return { browser: csrfToken, accountId: account.id, purpose: 'confirm' }
}

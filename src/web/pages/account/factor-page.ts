import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { confirmPassword } from '../../../accounts/password-check.ts'
import { spendFactor } from '../../../accounts/second-factor/check-factor.ts'
import {
  type FactorRequirement,
  type FactorSummary,
  findFactors,
  hasFactor,
  listRequirements,
  removeTotp,
} from '../../../accounts/second-factor/factors.ts'
import { allowsPasskeys } from '../../../accounts/second-factor/passkey-ceremony.ts'
import { listPasskeys, type Passkey } from '../../../accounts/second-factor/passkeys.ts'
import { renewRecoveryCodes } from '../../../accounts/second-factor/recovery-codes.ts'
import {
  confirmEnrolment,
  confirmReplacement,
  type Enrolment,
  findEnrolment,
  openReplacement,
  type Replacement,
  startEnrolment,
} from '../../../accounts/second-factor/totp-enrolment.ts'
import type { Session } from '../../../accounts/sessions.ts'
import { findConfirmationWays } from '../../../accounts/single-sign-on/identities.ts'
import type { AppContext } from '../../../context.ts'
import { transaction } from '../../../database/database.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { page } from '../../pages.ts'
import { factorContextOf } from '../../sign-in-origin.ts'
import { requireConfirmation, signedIn, type Visit, withReturn } from '../../visit.ts'

/** The page of the second factors. */
export const factorHome = '/settings/second-factor'

const factorPage = page<{
  factors: FactorSummary
  passkeys: Passkey[]
  /** Whether browsers allow passkeys on this host. */
  allowsPasskeys: boolean
  /** Who requires a second factor, now or after a grace period. */
  requirements: FactorRequirement[]
  /** Whether the person must add a second factor before they can open other pages. */
  mustEnrol: boolean
  returnId: string
  problem: string | null
}>('accounts/second-factor')
const enrolPage = page<{ enrolment: Enrolment; returnId: string; problem: string | null }>(
  'accounts/enrol-totp',
)
const replacePage = page<{ replacement: Replacement; problem: string | null }>('accounts/replace-totp')
const removePage = page<{
  /** False for an account that was created by a sign-in with a provider. */
  hasPassword: boolean
  /** Whether the form asks for a code. Not within five minutes of a second factor. */
  asksCode: boolean
  problem: string | null
}>('accounts/remove-totp')
/** Said after the removal of the last second factor. */
export const noFactorLeft = 'Your account has no second factor now, and its recovery codes no longer work.'
/** The problem with a removal of the last second factor while one is required. */
export const lastRequiredFactor = 'A second factor is required. Add another one first.'
/** Shows new recovery codes, once. */
export const codesPage = page<{
  codes: string[]
  /** Whether they replace earlier ones. Otherwise they come with the first second factor of the account. */
  isRenewal: boolean
  next: string
}>('accounts/recovery-codes')

const replaceUrl = `${factorHome}/totp/replace`
const removeUrl = `${factorHome}/totp/remove`
const ReturnQuery = z.object({ return: text })
const CodeForm = z.object({ code: text, return: text })
const ReplaceForm = z.object({ replacement: text, code: text })
const RemoveForm = z.object({ current_password: text, code: text })

/** `/settings/second-factor`: the authenticator app and the recovery codes of the signed-in account. */
export async function factorRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get(
    factorHome,
    signedIn(context, { mayLackFactor: true }, async ({ session }, request, reply) => {
      return showFactors(context, request, reply, session, null)
    }),
  )

  app.post(
    `${factorHome}/totp`,
    signedIn(
      context,
      { form: factorHome, mayLackFactor: true },
      async ({ session, confirm }, request, reply) => {
        const { return: returnId } = readForm(ReturnQuery, request)
        await confirm(withReturn(factorHome, returnId))
        if (await startEnrolment(context, session.account.id)) {
          return reply.redirect(withReturn(`${factorHome}/totp`, returnId), 303)
        }
        return showFactors(
          context,
          request,
          reply.code(409),
          session,
          'You have an authenticator app already. Remove it first.',
        )
      },
    ),
  )

  app.get(
    `${factorHome}/totp`,
    signedIn(context, { mayLackFactor: true }, async ({ session, confirm }, request, reply) => {
      await confirm()
      const { return: returnId } = readQuery(ReturnQuery, request)
      return showEnrolment(context, reply, session, { returnId, problem: null })
    }),
  )

  app.post(
    `${factorHome}/totp/confirm`,
    signedIn(
      context,
      { form: `${factorHome}/totp`, mayLackFactor: true },
      async ({ session, confirm, by }, request, reply) => {
        const { id } = session.account
        const { code, return: returnId } = readForm(CodeForm, request)
        // A wrong code shows the secret again.
        await confirm(withReturn(`${factorHome}/totp`, returnId))
        const confirmed = await confirmEnrolment(factorContextOf(context, request), by, id, code)
        if ('problem' in confirmed) {
          reply.code(confirmed.status).headers(confirmed.headers)
          return showEnrolment(context, reply, session, { returnId, problem: confirmed.problem })
        }
        const next = nextPage(returnId)
        if (confirmed.recoveryCodes.length > 0) {
          return codesPage(reply, session, { codes: confirmed.recoveryCodes, isRenewal: false, next })
        }
        leaveNotice(request, reply, config, 'The authenticator app was added.')
        return reply.redirect(next, 303)
      },
    ),
  )

  app.get(
    replaceUrl,
    signedIn(context, { mayLackFactor: true }, async ({ session, confirm, proveFactor }, _request, reply) => {
      await confirm()
      if (!session.hasRecovered) await proveFactor()
      const { totpSince } = await findFactors(db, session.account.id)
      if (!totpSince) return reply.redirect(factorHome, 303)
      const replacement = await openReplacement(context, session.account, '')
      return replacePage(reply, session, { replacement, problem: null })
    }),
  )

  app.post(
    replaceUrl,
    signedIn(
      context,
      { form: replaceUrl, mayLackFactor: true },
      async ({ session, confirm, proveFactor, by }, request, reply) => {
        await confirm()
        if (!session.hasRecovered) await proveFactor()
        const { replacement: sealed, code } = readForm(ReplaceForm, request)
        const { account } = session
        const given = { sealed, code }
        const outcome = await confirmReplacement(factorContextOf(context, request), by, account.id, given)
        if ('problem' in outcome) {
          reply.code(outcome.status).headers(outcome.headers)
          const replacement = await openReplacement(context, account, sealed)
          return replacePage(reply, session, { replacement, problem: outcome.problem })
        }
        leaveNotice(request, reply, config, 'The authenticator app was replaced.')
        return reply.redirect(factorHome, 303)
      },
    ),
  )

  app.get(
    removeUrl,
    signedIn(context, { mayLackFactor: true }, async ({ session }, _request, reply) => {
      const { totpSince } = await findFactors(db, session.account.id)
      return totpSince ? showRemoval(reply, session, null) : reply.redirect(factorHome, 303)
    }),
  )

  app.post(
    removeUrl,
    signedIn(context, { form: removeUrl, mayLackFactor: true }, async ({ session, by }, request, reply) => {
      const refused = await refuseRemoval(context, request, { session, by })
      if (refused) {
        return showRemoval(reply.code(refused.status).headers(refused.headers), session, refused.problem)
      }
      const { id } = session.account
      const outcome = await removeTotp(db, by, id, config.requireSecondFactor.of)
      if (outcome === 'required') return showRemoval(reply.code(409), session, lastRequiredFactor)
      const factorsLeft = hasFactor(await findFactors(db, id))
      const rest = factorsLeft ? '' : ` ${noFactorLeft}`
      leaveNotice(request, reply, config, `The authenticator app was removed.${rest}`)
      return reply.redirect(factorHome, 303)
    }),
  )

  app.post(
    `${factorHome}/recovery-codes`,
    signedIn(
      context,
      { form: factorHome, mayLackFactor: true },
      async ({ session, confirm, by }, request, reply) => {
        await confirm()
        const { id } = session.account
        if (!hasFactor(await findFactors(db, id))) {
          return showFactors(
            context,
            request,
            reply.code(409),
            session,
            'Recovery codes need a second factor. Add one first.',
          )
        }
        const codes = await transaction(db, (tx) => renewRecoveryCodes(tx, by, id), by)
        return codesPage(reply, session, { codes, isRenewal: true, next: factorHome })
      },
    ),
  )

  async function showRemoval(
    reply: FastifyReply,
    session: Session,
    problem: string | null,
  ): Promise<FastifyReply> {
    const { hasPassword } = await findConfirmationWays(db, session.account.id)
    return removePage(reply, session, { hasPassword, asksCode: !hasRecentProof(session), problem })
  }
}

/**
 * Checks the password, and then the code of the app or a recovery code. Returns the refusal, or null. A person without a
 * password confirms the session instead. A second factor of the last five minutes, such as the recovery code of the sign-in,
 * is enough without another code: with a lost phone, each code counts.
 */
async function refuseRemoval(
  context: AppContext,
  request: FastifyRequest,
  { session, by }: Pick<Visit, 'session' | 'by'>,
) {
  const { account } = session
  const { current_password: password, code } = readForm(RemoveForm, request)
  if ((await findConfirmationWays(context.db, account.id)).hasPassword) {
    const checked = await confirmPassword(context.db, account.id, password)
    if ('problem' in checked) {
      return checked.status === 403 ? { ...checked, problem: 'Your current password is wrong.' } : checked
    }
  } else await requireConfirmation(context, request, session, factorHome)
  if (code === '' && hasRecentProof(session)) return null
  const isCode = /^[\d\s]*$/.test(code)
  const typed = { code: isCode ? code : '', recoveryCode: isCode ? '' : code }
  return spendFactor(factorContextOf(context, request), by, account.id, typed)
}

function hasRecentProof({ hasProvedFactor, hasRecovered }: Session): boolean {
  return hasProvedFactor || hasRecovered
}

/** Shows the second factors of the account, with a problem. */
export async function showFactors(
  { config, db }: AppContext,
  request: FastifyRequest,
  reply: FastifyReply,
  session: Session,
  problem: string | null,
): Promise<FastifyReply> {
  const { return: returnId } = readQuery(ReturnQuery, request)
  return factorPage(reply, session, {
    factors: await findFactors(db, session.account.id),
    passkeys: await listPasskeys(db, session.account.id),
    allowsPasskeys: allowsPasskeys(config),
    requirements: await listRequirements(db, session.account, config.requireSecondFactor),
    mustEnrol: session.lacksFactor,
    returnId,
    problem,
  })
}

/** Shows the secret of the app that is being set up. Without one, redirects to the overview. */
async function showEnrolment(
  context: AppContext,
  reply: FastifyReply,
  session: Session,
  shown: { returnId: string; problem: string | null },
): Promise<FastifyReply> {
  const enrolment = await findEnrolment(context, session.account)
  return enrolment ? enrolPage(reply, session, { enrolment, ...shown }) : reply.redirect(factorHome, 303)
}

/** Returns the page that required a second factor. `/login` redirects a signed-in browser to it. */
export function nextPage(returnId: string): string {
  return returnId === '' ? factorHome : withReturn('/login', returnId)
}

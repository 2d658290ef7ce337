import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import { findFactors, hasFactor, removePasskey } from '../../../accounts/second-factor/factors.ts'
import {
  allowsPasskeys,
  finishRegistration,
  startRegistration,
} from '../../../accounts/second-factor/passkey-ceremony.ts'
import type { ChallengeOwner } from '../../../accounts/second-factor/passkey-challenges.ts'
import { insertPasskey, listPasskeys } from '../../../accounts/second-factor/passkeys.ts'
import { countRecoveryCodes, renewRecoveryCodes } from '../../../accounts/second-factor/recovery-codes.ts'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { transaction } from '../../../database/database.ts'
import { isPlainText } from '../../../domain/plain-text.ts'
import { rowId } from '../../../domain/row-id.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn, withReturn } from '../../visit.ts'
import {
  codesPage,
  factorHome,
  lastRequiredFactor,
  nextPage,
  noFactorLeft,
  showFactors,
} from './factor-page.ts'

const newPage = page<{ options: string; returnId: string; name: string; problem: string | null }>(
  'accounts/new-passkey',
)

const ReturnQuery = z.object({ return: text })
const PasskeyForm = z.object({
  return: text,
  credential: text,
  name: text.transform((name) => name.trim().slice(0, 100)),
})
const RemovalForm = z.object({ id: rowId })

/** `/settings/second-factor/passkeys`: add and remove passkeys. */
export async function passkeyRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context
  const url = `${factorHome}/passkeys`
  if (!allowsPasskeys(config)) return

  app.get(
    `${url}/new`,
    signedIn(context, { mayLackFactor: true }, async ({ session, confirm }, request, reply) => {
      await confirm()
      const { return: returnId } = readQuery(ReturnQuery, request)
      return showNew(reply, session, { returnId, name: '', problem: null })
    }),
  )

  app.post(
    url,
    signedIn(
      context,
      { form: factorHome, mayLackFactor: true },
      async ({ session, confirm, by }, request, reply) => {
        const { return: returnId, credential, name } = readForm(PasskeyForm, request)
        await confirm(withReturn(`${url}/new`, returnId))
        const again = (problem: string, status: number) =>
          showNew(reply.code(status), session, { returnId, name, problem })
        if (name === '' || !isPlainText(name)) return again('Give the passkey a name, on one line.', 400)
        const made = await finishRegistration(context, credential, ownerOf(session))
        if (!made)
          return again('The passkey was not accepted, or the page was open for too long. Try again.', 403)
        const accountId = session.account.id
        const codes = await transaction(
          db,
          async (tx) => {
            if (!(await insertPasskey(tx, by, { ...made, accountId, name }))) return null
            return (await countRecoveryCodes(tx, accountId)) > 0 ? [] : renewRecoveryCodes(tx, by, accountId)
          },
          by,
        )
        if (codes === null) return again('You have this passkey already, or too many. Remove one first.', 409)
        const next = nextPage(returnId)
        if (codes.length > 0) return codesPage(reply, session, { codes, isRenewal: false, next })
        leaveNotice(request, reply, config, `The passkey “${name}” was added.`)
        return reply.redirect(next, 303)
      },
    ),
  )

  app.get(
    `${url}/remove`,
    signedIn(context, async ({ session }, request, reply) => {
      const { id } = readQuery(RemovalForm, request)
      const passkey = (await listPasskeys(db, session.account.id)).find((one) => one.id === id)
      if (!passkey) throw pageNotFound()
      return confirmationPage(reply, session, {
        title: `Remove the passkey ${passkey.name}?`,
        explanation: 'You can no longer sign in with it. Remove it from your device, too.',
        action: `${url}/remove`,
        fields: { id },
        button: 'Remove',
        ask: null,
        back: factorHome,
      })
    }),
  )

  app.post(
    `${url}/remove`,
    signedIn(context, { form: factorHome }, async ({ session, confirm, by }, request, reply) => {
      await confirm()
      const { id } = readForm(RemovalForm, request)
      const accountId = session.account.id
      const rule = config.requireSecondFactor.of
      const outcome = await removePasskey(db, by, accountId, id, config, rule)
      if (outcome === 'unknown') throw pageNotFound()
      if (outcome === 'required') {
        return showFactors(context, request, reply.code(409), session, lastRequiredFactor)
      }
      if (outcome === 'only-way') {
        const problem =
          'This passkey is your only way to sign in. Set a password first, or sign in once with another passkey alone.'
        return showFactors(context, request, reply.code(409), session, problem)
      }
      const rest = hasFactor(await findFactors(db, accountId)) ? '' : ` ${noFactorLeft}`
      const removed = `The passkey was removed. Remove it from your device, too.${rest}`
      leaveNotice(request, reply, config, removed)
      return reply.redirect(factorHome, 303)
    }),
  )

  async function showNew(
    reply: FastifyReply,
    session: Session,
    shown: { returnId: string; name: string; problem: string | null },
  ): Promise<FastifyReply> {
    const options = await startRegistration(context, session.account, ownerOf(session))
    return newPage(reply, session, { ...shown, options })
  }
}

function ownerOf({ account, csrfToken }: Session): ChallengeOwner {
  return { browser: csrfToken, accountId: account.id, purpose: 'register' }
}

import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { findVerification, spendVerificationToken } from '../../../accounts/email-verifications.ts'
import type { AppContext } from '../../../context.ts'
import { describeRule } from '../../../database/rules.ts'
import { clearCookie, readCookie, setCookie } from '../../cookies.ts'
import { csrfToken } from '../../csrf.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { PageError } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { anybody, redirectToSignIn, signedIn } from '../../visit.ts'

const verificationPage = page<{
  /** Null when the link does not work. */
  pending: { username: string; email: string } | null
  token: string
}>('accounts/email-verification')

// The token is in the query, because the log contains the path.
const TokenForm = z.object({ token: text })

/** How long the browser keeps the token while its person signs in. */
const cookieSeconds = 3600

/**
 * `/settings/email-verification`: the page of a link that verifies an email, in a session of its account. A person who
 * has a mailbox must not verify the email for the account of a stranger who entered it. Opening the page only shows a
 * button: programs that check the links of a mail open it too.
 */
export async function emailVerificationRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/settings/email-verification', async (request, reply) => {
    const { token: sent } = readQuery(TokenForm, request)
    // After the sign-in the URL has no token: nothing returns to a URL with a secret.
    const token = sent || readCookie(request, config, 'verification') || ''
    const pending = token === '' ? null : await findVerification(db, token)
    // Before the session is read, which may lead to another page.
    if (pending && sent !== '') setCookie(reply, config, 'verification', sent, cookieSeconds)
    const show = anybody(context, async (session) => {
      if (!pending) {
        const visitor = session ?? { account: null, csrfToken: csrfToken(request, reply, config) }
        return verificationPage(reply.code(410), visitor, { pending: null, token: '' })
      }
      if (!session) return redirectToSignIn(context, request, reply)
      if (session.account.id !== pending.accountId) throw otherAccount(pending.username)
      return verificationPage(reply, session, { pending, token })
    })
    return show(request, reply)
  })

  app.post(
    '/settings/email-verification',
    signedIn(context, { form: '/settings/email-verification' }, async ({ session, by }, request, reply) => {
      const { token } = readForm(TokenForm, request)
      const { id } = session.account
      const pending = await findVerification(db, token)
      if (pending && pending.accountId !== id) throw otherAccount(pending.username)
      const outcome = await spendVerificationToken(db, by, id, token)
      if (outcome === 'expired')
        return verificationPage(reply.code(410), session, { pending: null, token: '' })
      if (outcome === 'taken') throw new PageError(409, describeRule('email_is_taken'))
      clearCookie(reply, config, 'verification')
      leaveNotice(request, reply, config, 'Your email address is verified.')
      return reply.redirect('/settings/account', 303)
    }),
  )
}

function otherAccount(username: string): PageError {
  const problem = `This link verifies the email address of the account ${username}.`
  return new PageError(
    403,
    `${problem} If it is yours, sign out, sign in as ${username}, and open the link again.`,
  )
}

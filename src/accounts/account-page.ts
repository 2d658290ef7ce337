import type { FastifyInstance, FastifyReply } from 'fastify'
import type pg from 'pg'
import { z } from 'zod'
import type { AppContext } from '../context.ts'
import { type Actor, transaction } from '../database/database.ts'
import { actorOf } from '../http/actor.ts'
import { clearCookie } from '../http/cookies.ts'
import { readForm, readQuery, text } from '../http/forms.ts'
import { page } from '../http/pages.ts'
import { type Account, type Credentials, findAccountByUsername, replacePasswordHash } from './accounts.ts'
import { findPasswordProblem, hashPassword, minPasswordCharacters } from './passwords.ts'
import { deleteSessions, type Session } from './sessions.ts'
import { confirmPassword, startSession } from './sign-in.ts'
import { forgetOrigins } from './sign-in-origins.ts'
import { readSession, redirectToSignIn } from './visitor.ts'

const accountPage = page<{
  about: Account | null
  problem: string | null
  wasChanged: boolean
  minPasswordCharacters: number
}>('accounts/account')

const AccountQuery = z.object({ changed: text })
const PasswordForm = z.object({ current_password: text, new_password: text, repeated_password: text })

/** `/settings/account`: changes the password and signs out everywhere. */
export async function accountRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { config, db } = context

  app.get('/settings/account', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply)
    const wasChanged = readQuery(AccountQuery, request).changed !== ''
    return showAccount(db, reply, session, { problem: null, wasChanged })
  })

  app.post('/settings/account/password', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return redirectToSignIn(context, request, reply, '/settings/account')
    const form = readForm(PasswordForm, request)
    const chosen = form.new_password
    const isRepeated = chosen === form.repeated_password
    const problem =
      findPasswordProblem(chosen, session.account.username) ??
      (isRepeated ? null : 'The two new passwords are not the same.')
    if (problem) return showAccount(db, reply.code(400), session, { problem, wasChanged: false })

    const checked = await confirmPassword(db, session.account.id, form.current_password)
    if ('problem' in checked) {
      reply.code(checked.status).headers(checked.headers)
      const message = checked.status === 403 ? 'Your current password is not right.' : checked.problem
      return showAccount(db, reply, session, { problem: message, wasChanged: false })
    }
    const actor = actorOf(request, session.account.id, 'change-password')
    const changed = await changePassword(db, checked, chosen, actor)
    if (!changed || !(await startSession(context, request, reply, changed, 'change-password'))) {
      const message = 'The password was changed a moment ago. Sign in with the new one.'
      return showAccount(db, reply.code(409), session, { problem: message, wasChanged: false })
    }
    return reply.redirect('/settings/account?changed=1', 303)
  })

  app.post('/settings/account/sign-out-everywhere', async (request, reply) => {
    const session = await readSession(context, request)
    if (session) {
      const { id } = session.account
      await transaction(db, (tx) => deleteSessions(tx, id), actorOf(request, id, 'sign-out'))
    }
    clearCookie(reply, config, 'session')
    return reply.redirect('/login', 303)
  })
}

async function showAccount(
  db: pg.Pool,
  reply: FastifyReply,
  session: Session,
  shown: { problem: string | null; wasChanged: boolean },
): Promise<FastifyReply> {
  const about = await findAccountByUsername(db, session.account.username)
  return accountPage(reply, session, { ...shown, about, minPasswordCharacters })
}

/**
 * Sets the password, ends every session of the account, and forgets its known browsers and networks. Returns the new
 * credentials. Null when the password was changed in the meantime.
 */
async function changePassword(
  db: pg.Pool,
  credentials: Credentials,
  chosen: string,
  actor: Actor,
): Promise<Credentials | null> {
  const newHash = await hashPassword(chosen)
  return transaction(
    db,
    async (tx) => {
      if (!(await replacePasswordHash(tx, credentials, newHash))) return null
      await deleteSessions(tx, credentials.accountId)
      await forgetOrigins(tx, credentials.accountId)
      return { ...credentials, passwordHash: newHash }
    },
    actor,
  )
}

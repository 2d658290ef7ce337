import type { FastifyInstance, FastifyReply } from 'fastify'
import * as z from 'zod'
import { chooseHeir, deleteAccount, updateAccount } from '../../../accounts/account-lifecycle.ts'
import { makeVerificationToken, verificationUrl } from '../../../accounts/email-verifications.ts'
import { makeResetToken, resetUrl } from '../../../accounts/password-resets.ts'
import { readForm, text } from '../../forms.ts'
import { PageError } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { type AccountProblem, showAccount } from './accounts.ts'
import { type AdminContext, accountOfPage, goOn, orProblem } from './administrator.ts'

const trimmed = text.transform((value) => value.trim())
const DetailsForm = z.object({ username: trimmed, display_name: trimmed, email: trimmed })
const DeleteForm = z.object({ confirmed: trimmed, groups_to: trimmed, leave_groups: text })

const verificationLinkPage = page<{ username: string; email: string; link: string }>(
  'admin/verification-link',
)
const resetLinkPage = page<{ username: string; link: string }>('admin/reset-link')

interface Route {
  Params: { username: string }
}

/** `/admin/accounts/<username>/{details,reset-link,verification-link,delete}`: changes that commands can make too. */
export async function accountEditingRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { config, db, byOf, sessionOf } = context

  app.post<Route>('/admin/accounts/:username/details', async (request, reply) => {
    const about = await accountOfPage(context, request.params.username)
    const form = readForm(DetailsForm, request)
    const email = form.email || null
    const changes = {
      username: form.username,
      displayName: form.display_name,
      // An unchanged email stays verified.
      ...(email !== about.email && { email }),
    }
    const by = byOf(request)
    const changed = await orProblem(() => updateAccount(db, by, about.id, changes))
    if (typeof changed === 'string') {
      const entered = { username: form.username, displayName: form.display_name, email: form.email }
      return refuse(reply, 400, about.username, { form: 'details', sentence: changed, entered })
    }
    return goOn(context, reply, `/admin/accounts/${form.username}`, 'The account is changed.')
  })

  app.post<Route>('/admin/accounts/:username/reset-link', async (request, reply) => {
    const { id, username } = await accountOfPage(context, request.params.username)
    const session = sessionOf(request)
    const token = await makeResetToken(db, byOf(request), id)
    if (token === null) throw new PageError(409, 'The account is disabled: enable it first.')
    return resetLinkPage(reply, session, { username, link: resetUrl(config, token) })
  })

  app.post<Route>('/admin/accounts/:username/verification-link', async (request, reply) => {
    const { id, username } = await accountOfPage(context, request.params.username)
    const made = await makeVerificationToken(db, id)
    if (!made) throw new PageError(409, 'There is no email to verify, or the account is disabled.')
    const link = verificationUrl(config, made.token)
    return verificationLinkPage(reply, sessionOf(request), { username, email: made.email, link })
  })

  app.post<Route>('/admin/accounts/:username/delete', async (request, reply) => {
    const { id, username } = await accountOfPage(context, request.params.username)
    const session = sessionOf(request)
    if (id === session.account.id) {
      throw new PageError(409, 'You cannot do this to your own account. Ask another administrator.')
    }
    const form = readForm(DeleteForm, request)
    const refuseDeletion = (status: number, sentence: string) =>
      refuse(reply, status, username, { form: 'delete', sentence })
    if (form.confirmed !== username) {
      return refuseDeletion(400, `Nothing was deleted: type ${username} to delete it.`)
    }
    const choice = { heir: form.groups_to || null, isLeft: form.leave_groups !== '' }
    const chosen = await chooseHeir(db, username, choice)
    if (typeof chosen === 'string') return refuseDeletion(400, chosen)
    const account = { id, username }
    const { outcome, groups } = await deleteAccount(db, byOf(request), account, chosen.orphanedGroups)
    if (outcome === 'refused') {
      return refuseDeletion(
        409,
        `This account is the only admin of ${groups.join(', ')}. Choose what happens to the groups.`,
      )
    }
    return goOn(context, reply, '/admin/accounts', `The account ${username} is deleted.`)
  })

  function refuse(
    reply: FastifyReply,
    status: number,
    username: string,
    problem: AccountProblem,
  ): Promise<FastifyReply> {
    return showAccount(context, reply.code(status), username, problem)
  }
}

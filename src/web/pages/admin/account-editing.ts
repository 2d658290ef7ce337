import type { FastifyInstance, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { chooseHeir, deleteAccount, updateAccount } from '../../../accounts/account-lifecycle.ts'
import { makeVerificationToken, verificationUrl } from '../../../accounts/email-verifications.ts'
import { makeResetToken, resetUrl } from '../../../accounts/password-resets.ts'
import { readForm, text } from '../../forms.ts'
import { PageError } from '../../page-error.ts'
import { page } from '../../pages.ts'
import { type AdminContext, accountOfPage, goOn, orProblem } from './administrator.ts'

const trimmed = text.transform((value) => value.trim())
const DetailsForm = z.object({ username: trimmed, display_name: trimmed, email: trimmed })
const DeleteForm = z.object({ confirmed: trimmed, groups_to: trimmed, leave_groups: text })

const verificationLinkPage = page<{ username: string; email: string; link: string }>(
  'admin/verification-link',
)
const resetLinkPage = page<{ username: string; link: string }>('admin/reset-link')

/** What an administrator enters in the form of the details. */
interface Details {
  username: string
  displayName: string
  email: string | null
}

/** `username` is the one of the page, also when the form has another one. */
const detailsPage = page<{ username: string; shown: Details; problem: string | null }>(
  'admin/account-details',
)
const deletePage = page<{ username: string; problem: string | null }>('admin/delete-account')

interface Route {
  Params: { username: string }
}

/** `/admin/accounts/<username>/{details,reset-link,verification-link,delete}`: changes that commands can make too. */
export async function accountEditingRoutes(app: FastifyInstance, context: AdminContext): Promise<void> {
  const { config, db, byOf, sessionOf } = context

  app.get<Route>('/admin/accounts/:username/details', async (request, reply) => {
    const about = await accountOfPage(context, request.params.username)
    const { username } = about
    return detailsPage(reply, sessionOf(request), { username, shown: about, problem: null })
  })

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
      const shown = { username: form.username, displayName: form.display_name, email: form.email }
      const refused = { username: about.username, shown, problem: changed }
      return detailsPage(reply.code(400), sessionOf(request), refused)
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

  app.get<Route>('/admin/accounts/:username/delete', async (request, reply) => {
    const { username } = await deletableAccount(request)
    return deletePage(reply, sessionOf(request), { username, problem: null })
  })

  app.post<Route>('/admin/accounts/:username/delete', async (request, reply) => {
    const { id, username } = await deletableAccount(request)
    const form = readForm(DeleteForm, request)
    const refuseDeletion = (status: number, problem: string) =>
      deletePage(reply.code(status), sessionOf(request), { username, problem })
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

  async function deletableAccount(request: FastifyRequest<Route>) {
    const about = await accountOfPage(context, request.params.username)
    if (about.id === sessionOf(request).account.id) {
      throw new PageError(409, 'You cannot do this to your own account. Ask another administrator.')
    }
    return about
  }
}

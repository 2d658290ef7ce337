import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import * as z from 'zod'
import { type ListedInvitation, listInvitations, withdrawInvitation } from '../../../accounts/invitations.ts'
import { countInvitation, explainNoNewAccounts, invite } from '../../../accounts/invite.ts'
import type { Session } from '../../../accounts/sessions.ts'
import type { AppContext } from '../../../context.ts'
import { brokenConstraint } from '../../../database/errors.ts'
import { describeRule } from '../../../database/rules.ts'
import { pageOf } from '../../../domain/paging.ts'
import { type Role, roles } from '../../../domain/permissions.ts'
import type { Principal } from '../../../domain/principal.ts'
import { rowId } from '../../../domain/row-id.ts'
import type { VisibleGroup } from '../../../groups/groups.ts'
import { readForm, readQuery, text } from '../../forms.ts'
import { leaveNotice } from '../../notice.ts'
import { pageNotFound } from '../../page-error.ts'
import { confirmationPage, page } from '../../pages.ts'
import { signedIn, type Visit } from '../../visit.ts'
import type { Administrator } from '../admin/administrator.ts'
import { managedGroup, type PagesContext } from '../permit.ts'

const invitationsPerPage = 50

const ListQuery = z.object({ after: text })
const InvitationForm = z.object({
  email: text.transform((email) => email.trim()),
  role: z.enum(roles).default('guest'),
})
const WithdrawalForm = z.object({ id: rowId })

/** The target of invitations: a group, or the whole server. */
interface Place {
  group: VisibleGroup | null
}

const invitationsPage = page<{
  group: VisibleGroup | null
  listUrl: string
  invitations: ListedInvitation[]
  next: string | null
}>('pages/invitations')
const newInvitationPage = page<{
  group: VisibleGroup | null
  listUrl: string
  roles: readonly Role[]
  hasMail: boolean
  /** Whether only administrators create accounts (SIGN_UP=closed). */
  isSignUpClosed: boolean
  /** Why an invitation cannot create an account; null when it can. */
  noNewAccounts: string | null
  form: { email: string; role: Role }
  problem: string | null
}>('pages/new-invitation')
const madeInvitationPage = page<{
  listUrl: string
  group: string | null
  link: string
  email: string | null
  expiresAt: Date
}>('pages/made-invitation')

/** `/<group>/-/invitations`: invitations to a group, for its admins. `…/new` invites somebody. */
export async function groupInvitationRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  interface Route {
    Params: { group: string }
  }
  const { db } = context
  const pages = invitationPages(context)
  const urlOf = ({ params }: FastifyRequest<Route>) => `/${params.group}/-/invitations`

  app.get<Route>(
    '/:group/-/invitations',
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'readGroup')
      return pages.list(request, reply, session, { group })
    }),
  )
  app.get<Route>(
    '/:group/-/invitations/new',
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'invite')
      return pages.form(reply, session, { group })
    }),
  )
  // The URL of the list takes the form too: programs post there.
  for (const url of ['/:group/-/invitations', '/:group/-/invitations/new']) {
    app.post<Route>(
      url,
      signedIn(
        context,
        { form: (request) => `${urlOf(request)}/new` },
        async ({ session, by, prove }, request, reply) => {
          const group = await managedGroup(db, request.params.group, session, 'invite')
          await prove('invite')
          return pages.make(request, reply, { session, by }, { group })
        },
      ),
    )
  }
  app.get<Route>(
    '/:group/-/invitations/withdraw',
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'manageGroup')
      return pages.ask(request, reply, session, { group })
    }),
  )
  app.post<Route>(
    '/:group/-/invitations/withdraw',
    signedIn(context, { form: (request) => urlOf(request) }, async ({ by, session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'manageGroup')
      return pages.withdraw(request, reply, by, { group })
    }),
  )
}

/** `/admin/invitations`: all invitations, for site administrators. `…/new` invites somebody to no group. */
export async function siteInvitationRoutes(
  app: FastifyInstance,
  context: AppContext & Administrator,
): Promise<void> {
  const { byOf, sessionOf } = context
  const pages = invitationPages(context)
  const place = { group: null }
  app.get('/admin/invitations', (request, reply) => pages.list(request, reply, sessionOf(request), place))
  app.get('/admin/invitations/new', (request, reply) => pages.form(reply, sessionOf(request), place))
  for (const url of ['/admin/invitations', '/admin/invitations/new']) {
    app.post(url, (request, reply) =>
      pages.make(request, reply, { session: sessionOf(request), by: byOf(request) }, place),
    )
  }
  app.get('/admin/invitations/withdraw', (request, reply) =>
    pages.ask(request, reply, sessionOf(request), place),
  )
  app.post('/admin/invitations/withdraw', (request, reply) =>
    pages.withdraw(request, reply, byOf(request), place),
  )
}

function invitationPages({ config, db }: AppContext) {
  const emptyForm = { email: '', role: 'developer' as Role }

  function showForm(
    reply: FastifyReply,
    session: Session,
    place: Place,
    shown: { form: { email: string; role: Role }; problem: string | null },
  ): FastifyReply {
    return newInvitationPage(reply, session, {
      ...shown,
      group: place.group,
      listUrl: urlOf(place),
      roles,
      hasMail: config.mail !== null,
      isSignUpClosed: config.signUp === 'closed',
      noNewAccounts: explainNoNewAccounts(config),
    })
  }

  return {
    async list(request: FastifyRequest, reply: FastifyReply, session: Session, place: Place) {
      const { after } = readQuery(ListQuery, request)
      const { group } = place
      const { rows: invitations, next } = await pageOf(
        (part) => listInvitations(db, group?.id ?? null, part),
        { after, limit: invitationsPerPage },
        ({ id }) => id,
      )
      return invitationsPage(reply, session, { group, listUrl: urlOf(place), invitations, next })
    },

    form(reply: FastifyReply, session: Session, place: Place) {
      return showForm(reply, session, place, { form: emptyForm, problem: null })
    },

    async make(
      request: FastifyRequest,
      reply: FastifyReply,
      { session, by }: Pick<Visit, 'session' | 'by'>,
      place: Place,
    ) {
      const form = readForm(InvitationForm, request)
      const { group } = place
      const refuse = (status: number, problem: string) =>
        showForm(reply.code(status), session, place, { form, problem })
      const obstacle = group === null ? explainNoNewAccounts(config) : null
      if (obstacle !== null) return refuse(403, `${obstacle}.`)
      const blockedSeconds = await countInvitation(db, session.account.id)
      if (blockedSeconds > 0) {
        reply.header('retry-after', `${blockedSeconds}`)
        return refuse(429, 'You have reached the limit of invitations for today. Try again tomorrow.')
      }
      const email = form.email || null
      const target = group && { groupId: group.id, role: form.role }
      try {
        const { url, expiresAt } = await invite(db, config, by, { email, target })
        if (url !== null) {
          const back = urlOf(place)
          const about = { group: group?.name ?? null, link: url, email, expiresAt }
          return madeInvitationPage(reply, session, { ...about, listUrl: back })
        }
      } catch (error) {
        const rule = brokenConstraint(error)
        if (rule === null) throw error
        return refuse(400, describeRule(rule))
      }
      leaveNotice(request, reply, config, `A mail to ${email} is being sent.`)
      return reply.redirect(urlOf(place), 303)
    },

    ask(request: FastifyRequest, reply: FastifyReply, session: Session, place: Place) {
      const { id } = readQuery(WithdrawalForm, request)
      return confirmationPage(reply, session, {
        title: 'Withdraw the invitation?',
        explanation: 'Its link stops working at once.',
        action: `${urlOf(place)}/withdraw`,
        fields: { id },
        button: 'Withdraw',
        ask: null,
        back: urlOf(place),
      })
    },

    async withdraw(request: FastifyRequest, reply: FastifyReply, by: Principal, place: Place) {
      const { id } = readForm(WithdrawalForm, request)
      if (!(await withdrawInvitation(db, by, id, place.group?.id ?? null))) throw pageNotFound()
      leaveNotice(request, reply, config, 'The invitation was withdrawn. Its link no longer works.')
      return reply.redirect(urlOf(place), 303)
    },
  }
}

function urlOf({ group }: Place): string {
  return group === null ? '/admin/invitations' : `/${group.name}/-/invitations`
}

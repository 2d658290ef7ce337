import * as z from 'zod'
import { type ListedInvitation, listInvitations, withdrawInvitation } from '../../accounts/invitations.ts'
import { countInvitation, explainNoNewAccounts, invite } from '../../accounts/invite.ts'
import { isEmail } from '../../domain/email.ts'
import { roles } from '../../domain/permissions.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { rowId } from '../../domain/row-id.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { conflict, notFound } from './errors.ts'
import { GroupPath } from './groups.ts'
import { type ApiContext, guardAdministrator, guardGroup } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

const Invitation = z
  .object({
    id: z.int().meta({ description: 'Id of the invitation', example: 7 }),
    email: z
      .string()
      .nullable()
      .meta({ description: 'Null for a link without an email', example: 'ann@example.com' }),
    role: z.enum(roles).meta({ description: 'Role in the group' }),
    invited_by: z
      .string()
      .nullable()
      .meta({ description: 'Username; null for the command line', example: 'alice' }),
    by_mail: z.boolean().meta({ description: 'Whether the link is sent to the email' }),
    created_at: Moment.meta({ description: 'When it was created' }),
    expires_at: Moment.meta({ description: 'When its link stops working' }),
    expired: z.boolean().meta({ description: 'Whether its link has stopped working' }),
  })
  .meta({ id: 'Invitation' })

const SiteInvitation = Invitation.extend({
  role: z.enum(roles).nullable().meta({ description: 'Role in the group. Null without a group' }),
  group: z.string().nullable().meta({
    description: 'Null for an invitation to an account without a group',
    example: 'acme',
  }),
}).meta({ id: 'SiteInvitation' })

const NewInvitation = z
  .object({
    id: z.int().meta({ description: 'Id of the invitation', example: 7 }),
    url: z.string().nullable().meta({
      description: 'The link to pass on. It is returned only once. Null when it is sent by mail',
      example: 'https://svc.example.com/invitations/8dKq',
    }),
    expires_at: Moment.meta({ description: 'When its link stops working' }),
  })
  .meta({ id: 'NewInvitation' })

const InvitationDraft = z
  .strictObject({
    role: z.enum(roles).meta({ description: 'Role in the group' }),
    email: z.string().refine(isEmail, 'must be an email address of at most 254 characters').optional().meta({
      description:
        'With a mail server, the link is sent to this email. Without an email, the link is returned',
      example: 'ann@example.com',
      format: 'email',
      maxLength: 254,
    }),
  })
  .meta({ id: 'InvitationDraft' })

const SiteInvitationDraft = InvitationDraft.omit({ role: true }).strict().meta({ id: 'SiteInvitationDraft' })

const SiteInvitationPath = z.object({
  invitation: rowId.meta({ description: 'Id of the invitation', example: '7' }),
})

const InvitationPath = GroupPath.extend({
  invitation: rowId.meta({ description: 'Id of the invitation', example: '7' }),
})

/** Invitations to a group, for its admins: `/api/groups/<group>/invitations`; all of them: `/api/invitations`. */
export async function invitationEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const url = '/groups/:group/invitations'
  const mayRead = guardGroup('readGroup', context)
  const mayManage = guardGroup('manageGroup', context)
  const mayInvite = guardGroup('invite', context)

  const mayReadAll = guardAdministrator('readSite', context)
  const mayManageAll = guardAdministrator('inviteToSite', context)

  app.get(
    '/invitations',
    endpoint(mayReadAll, {
      operationId: 'listSiteInvitations',
      tag: 'Accounts',
      summary: 'List all invitations that are neither accepted nor withdrawn, the newest first',
      querystring: PageQuery,
      response: { 200: z.array(SiteInvitation) },
    }),
    async (request, reply) => {
      return readPage(
        { request, reply, config },
        (part) => listInvitations(db, null, part),
        ({ id }) => id,
        (one) => ({ ...describe(one), role: one.role, group: one.group }),
      )
    },
  )

  app.post(
    '/invitations',
    endpoint(mayManageAll, {
      operationId: 'createSiteInvitation',
      tag: 'Accounts',
      summary: 'Invite somebody to create an account',
      body: SiteInvitationDraft,
      response: { 201: NewInvitation },
    }),
    async (request, reply) => {
      const { accountId, by } = mayManageAll.granted(request)
      const obstacle = explainNoNewAccounts(config)
      if (obstacle !== null) throw conflict(obstacle)
      await refuseMany(accountId)
      const { email = null } = request.body
      const made = await invite(db, config, by, { email, target: null })
      const expires_at = made.expiresAt.toISOString()
      return reply.code(201).send({ id: Number(made.id), url: made.url, expires_at })
    },
  )

  app.delete(
    '/invitations/:invitation',
    endpoint(mayManageAll, {
      operationId: 'withdrawSiteInvitation',
      tag: 'Accounts',
      summary: 'Withdraw any invitation: its link stops working',
      params: SiteInvitationPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { by } = mayManageAll.granted(request)
      if (!(await withdrawInvitation(db, by, request.params.invitation, null))) {
        throw notFound('invitation not found')
      }
      return reply.code(204).send()
    },
  )

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'listInvitations',
      tag: 'Groups',
      summary: 'List the invitations to a group that are neither accepted nor withdrawn, newest first',
      params: GroupPath,
      querystring: PageQuery,
      response: { 200: z.array(Invitation) },
    }),
    async (request, reply) => {
      const { groupId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listInvitations(db, groupId, part),
        ({ id }) => id,
        describe,
      )
    },
  )

  app.post(
    url,
    endpoint(mayInvite, {
      operationId: 'createInvitation',
      tag: 'Groups',
      summary: 'Invite somebody to a group',
      description:
        'The first person who accepts the link gets the role, with a new or an existing account. The link works for 7 days.',
      params: GroupPath,
      body: InvitationDraft,
      response: { 201: NewInvitation },
    }),
    async (request, reply) => {
      const grant = mayInvite.granted(request)
      const { email = null, role } = request.body
      const { accountId } = grant.by
      if (accountId !== null) await refuseMany(accountId)
      const target = { groupId: grant.groupId, role }
      const made = await invite(db, config, grant.by, { email, target })
      const expires_at = made.expiresAt.toISOString()
      return reply.code(201).send({ id: Number(made.id), url: made.url, expires_at })
    },
  )

  app.delete(
    `${url}/:invitation`,
    endpoint(mayManage, {
      operationId: 'withdrawInvitation',
      tag: 'Groups',
      summary: 'Withdraw an invitation: its link stops working',
      params: InvitationPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const grant = mayManage.granted(request)
      const { invitation: id } = request.params
      if (!(await withdrawInvitation(db, grant.by, id, grant.groupId))) {
        throw notFound('invitation not found')
      }
      return reply.code(204).send()
    },
  )

  async function refuseMany(accountId: string): Promise<void> {
    const blockedSeconds = await countInvitation(db, accountId)
    if (blockedSeconds === 0) return
    const options = { retryAfterSeconds: blockedSeconds }
    throw new Refusal(errcode.resourceExhausted, 'too many invitations today', options)
  }
}

function describe(one: ListedInvitation): z.input<typeof Invitation> {
  return {
    id: Number(one.id),
    email: one.email,
    role: one.role ?? 'guest',
    invited_by: one.inviter,
    by_mail: one.isSentByMail,
    created_at: one.createdAt.toISOString(),
    expires_at: one.expiresAt.toISOString(),
    expired: one.isExpired,
  }
}

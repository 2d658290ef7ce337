import * as z from 'zod'
import { findAccountByUsername } from '../../accounts/accounts.ts'
import { maxGraceDays } from '../../domain/factor-grace.ts'
import { formatCount } from '../../domain/formats.ts'
import { roles, visibilities } from '../../domain/permissions.ts'
import { plainText } from '../../domain/plain-text.ts'
import type { Refusal } from '../../domain/refusal.ts'
import {
  listMembersWithoutFactor,
  type MemberWithoutFactor,
  requireFactorOfMembers,
  requireOwnFactor,
} from '../../groups/factor-requirement.ts'
import { addGroup, addRepository, changeGroupName, deleteGroup } from '../../groups/group-lifecycle.ts'
import { findGroup, findGroupSettings, type GroupSettings } from '../../groups/groups.ts'
import { findGroupMember, type GroupMember, listGroupMembers } from '../../groups/members.ts'
import { changeMember } from '../../groups/membership.ts'
import { findRepository } from '../../groups/repositories.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { conflict, invalidArgument, keepingRules, notFound } from './errors.ts'
import { GroupPath } from './groups.ts'
import {
  type ApiContext,
  guardAdministrator,
  guardGroup,
  guardPerson,
  requireOnGroup,
  requireOnSite,
} from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { describeRepository, RepositoryBody } from './repositories.ts'

const Settings = z
  .object({
    name: z.string().meta({ description: 'Name of the group', example: 'acme' }),
    requires_second_factor: z.boolean().meta({
      description: 'Members without a second factor have no role until they add one',
    }),
    second_factor_from: Moment.nullable().meta({
      description:
        'The end of the grace period, after which members without a second factor have no role; else null',
    }),
    created_at: Moment.meta({ description: 'When the group was created' }),
  })
  .meta({ id: 'GroupSettings' })

const groupName = z.string().max(100).meta({
  description: 'Lower-case letters and digits, with single . _ or - between them',
  example: 'acme',
  maxLength: 64,
})
const GroupDraft = z.strictObject({ name: groupName }).meta({ id: 'GroupDraft' })
const GroupUpdate = z
  .strictObject({
    name: groupName.meta({
      description: 'A new name. Only site administrators can change it, with an admin token',
    }),
    requires_second_factor: Settings.shape.requires_second_factor,
    second_factor_grace_days: z.int().min(0).max(maxGraceDays).meta({
      description:
        'With requires_second_factor: for how many days members without one keep their roles. They get a mail now, and one before the end. The default is none. It can only end a running grace period earlier',
      example: 14,
    }),
  })
  .partial()
  .meta({ id: 'GroupUpdate', description: 'Missing members keep their values' })
const DeletionQuery = z.object({
  with_repositories: z.literal('true').optional().meta({
    description: 'Also delete its repositories and all packages in them',
    example: 'true',
  }),
})

const RepositoryDraft = z
  .strictObject({
    name: z
      .string()
      .max(200)
      .meta({ description: 'Name of the repository in its group', example: 'php', maxLength: 100 }),
    visibility: z.enum(visibilities).optional().meta({ description: 'The default is private' }),
    description: plainText(350)
      .optional()
      .meta({ description: 'What its packages are for', example: 'PHP libraries of Acme' }),
  })
  .meta({ id: 'RepositoryDraft' })

const Member = z
  .object({
    username: z.string().meta({ description: 'Username of the member', example: 'alice' }),
    name: z.string().meta({ description: 'Display name', example: 'Alice Doe' }),
    role: z.enum(roles).meta({ description: 'Role in the group and all its repositories' }),
  })
  .meta({ id: 'GroupMember' })
const Unprotected = z
  .object({
    username: z.string().meta({ description: 'Username of the member', example: 'alice' }),
    name: z.string().meta({ description: 'Display name', example: 'Alice Doe' }),
    role: z.enum(roles).nullable().meta({
      description: 'Role in the group; null for a member of single repositories',
    }),
  })
  .meta({ id: 'MemberWithoutSecondFactor' })
const MemberUpdate = z
  .strictObject({ role: z.enum(roles).meta({ description: 'Role in the group and all its repositories' }) })
  .meta({ id: 'GroupMemberUpdate' })
const MemberPath = GroupPath.extend({
  username: z.string().meta({ description: 'Username of the account', example: 'alice' }),
})

/**
 * Groups, their settings, members and new repositories. Everyone can create groups, admins manage them, and only
 * site administrators rename or delete them, as in the browser.
 */
export async function groupSettingsEndpoints(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const url = '/groups/:group'
  const mayMake = guardPerson('createGroup', context)
  const mayAdd = guardGroup('createRepository', context)
  const mayRead = guardGroup('readGroup', context)
  const mayManage = guardGroup('manageGroup', context)
  const mayLeave = guardPerson('leaveGroup', context)
  const mayDelete = guardAdministrator('deleteGroup', context)
  const tag = 'Groups'

  app.post(
    '/groups',
    endpoint(mayMake, {
      operationId: 'createGroup',
      tag,
      summary: 'Create a group and become its admin',
      body: GroupDraft,
      response: { 201: Settings },
    }),
    async (request, reply) => {
      const { accountId, username, by } = mayMake.granted(request)
      const owner = { id: accountId, username }
      const { id } = await keepingRules(() => addGroup(context, by, request.body.name, owner))
      return reply.code(201).send(await settingsOf(id))
    },
  )

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'getGroup',
      tag,
      summary: 'Get the settings of a group',
      params: GroupPath,
      response: { 200: Settings },
    }),
    async (request) => settingsOf(mayRead.granted(request).groupId),
  )

  app.patch(
    url,
    endpoint(mayManage, {
      operationId: 'updateGroup',
      tag,
      summary: 'Change the settings of a group, or rename it',
      description:
        'A new name changes the URLs of its repositories. The old URLs keep working, and no other group can have the old name. Applications cannot switch off `requires_second_factor`.',
      params: GroupPath,
      body: GroupUpdate,
      response: { 200: Settings },
    }),
    async (request) => {
      const grant = mayManage.granted(request)
      const { groupId, name, accountId, by } = grant
      const {
        name: newName,
        requires_second_factor: isRequired,
        second_factor_grace_days: graceDays,
      } = request.body
      if (newName !== undefined) requireOnSite(grant, 'renameGroup')
      if (isRequired === false) requireOnGroup(grant, 'waiveSecondFactor')
      if (graceDays !== undefined && isRequired !== true) {
        throw invalidArgument('second_factor_grace_days needs requires_second_factor: true')
      }
      if (isRequired) await requireOwnFactor(db, accountId)
      // Rename first: if the name is rejected, nothing else may change.
      if (newName !== undefined && newName !== name) {
        await keepingRules(() => changeGroupName(db, by, { id: groupId, name }, newName))
      }
      if (isRequired !== undefined) {
        const choice = isRequired ? { isRequired, graceDays } : { isRequired }
        await requireFactorOfMembers(db, by, { id: groupId }, choice)
      }
      return settingsOf(groupId)
    },
  )

  app.delete(
    url,
    endpoint(mayDelete, {
      operationId: 'deleteGroup',
      tag,
      summary: 'Permanently delete a group, for site administrators only',
      description: 'No other group can have its name for 90 days, or never if the group had packages.',
      params: GroupPath,
      querystring: DeletionQuery,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { by } = mayDelete.granted(request)
      const group = await findGroup(db, request.params.group)
      if (!group) throw notFound('group not found')
      const withRepositories = request.query.with_repositories === 'true'
      const { isDeleted, repositories } = await deleteGroup(db, by, group, { withRepositories })
      if (!isDeleted) {
        throw conflict(
          `the group has ${formatCount(repositories.length, 'repository', 'repositories')}, those that can be restored included: pass with_repositories=true to delete them too`,
        )
      }
      return reply.code(204).send()
    },
  )

  app.post(
    `${url}/repositories`,
    endpoint(mayAdd, {
      operationId: 'createRepository',
      tag: 'Repositories',
      summary: 'Create a repository in a group',
      params: GroupPath,
      body: RepositoryDraft,
      response: { 201: RepositoryBody },
    }),
    async (request, reply) => {
      const { groupId, by } = mayAdd.granted(request)
      const { name, visibility = 'private', description = '' } = request.body
      const draft = { groupId, name, visibility, description }
      const { id } = await keepingRules(() => addRepository(context, by, draft))
      const made = await findRepository(db, id)
      if (!made) throw notFound('repository not found')
      return reply.code(201).send(describeRepository({ ...made, role: 'admin' }, config.baseUrl))
    },
  )

  app.get(
    `${url}/members`,
    endpoint(mayRead, {
      operationId: 'listGroupMembers',
      tag,
      summary: 'List everyone with a role on a group',
      params: GroupPath,
      querystring: PageQuery,
      response: { 200: z.array(Member) },
    }),
    async (request, reply) => {
      const { groupId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listGroupMembers(db, groupId, part),
        ({ username }) => username,
        describeMember,
      )
    },
  )

  app.get(
    `${url}/members-without-second-factor`,
    endpoint(mayRead, {
      operationId: 'listMembersWithoutSecondFactor',
      tag,
      summary: 'List the members of a group and of its repositories who have no second factor',
      params: GroupPath,
      querystring: PageQuery,
      response: { 200: z.array(Unprotected) },
    }),
    async (request, reply) => {
      const { groupId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listMembersWithoutFactor(db, groupId, part),
        ({ username }) => username,
        describeUnprotected,
      )
    },
  )

  app.put(
    `${url}/members/:username`,
    endpoint(mayManage, {
      operationId: 'setGroupMember',
      tag,
      summary: 'Add a member to a group, or change its role',
      description: 'Applications cannot give the role admin.',
      params: MemberPath,
      body: MemberUpdate,
      response: { 200: Member },
    }),
    async (request) => {
      const grant = mayManage.granted(request)
      const { groupId } = grant
      if (request.body.role === 'admin') requireOnGroup(grant, 'appointGroupAdmin')
      await change(mayManage.granted(request), request.params.username, request.body.role)
      const member = await findGroupMember(db, groupId, request.params.username)
      if (!member) throw notFound('member not found')
      return describeMember(member)
    },
  )

  app.delete(
    `${url}/members/:username`,
    endpoint(mayManage, {
      operationId: 'removeGroupMember',
      tag,
      summary: 'Remove a member from a group',
      description:
        'Roles on its repositories do not change. If groups of a sign-in provider give the account a role, it gets the role again at its next sign-in.',
      params: MemberPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const outcome = await change(mayManage.granted(request), request.params.username, 'none')
      if (outcome === 'unchanged') throw notAMember()
      return reply.code(204).send()
    },
  )

  app.delete(
    '/user/groups/:group',
    endpoint(mayLeave, {
      operationId: 'leaveGroup',
      tag,
      summary: 'Leave a group',
      description:
        'The account gives up its role in the group. Roles on its repositories do not change. The last admin cannot leave.',
      params: GroupPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { accountId, username, by } = mayLeave.granted(request)
      const group = await findGroup(db, request.params.group)
      if (!group) throw notAMember()
      const account = { id: accountId, username }
      const outcome = await changeMember(db, by, { place: { groupId: group.id }, account, role: 'none' })
      if (outcome === 'unchanged') throw notAMember()
      if (outcome === 'last-admin') throw lastAdmin()
      return reply.code(204).send()
    },
  )

  async function change(
    { groupId, by }: Pick<ReturnType<typeof mayManage.granted>, 'groupId' | 'by'>,
    username: string,
    role: z.output<typeof MemberUpdate>['role'] | 'none',
  ) {
    const account = await findAccountByUsername(db, username)
    if (!account) throw notFound('account not found')
    const outcome = await changeMember(db, by, { place: { groupId }, account, role })
    if (outcome === 'last-admin') throw lastAdmin()
    return outcome
  }

  async function settingsOf(groupId: string): Promise<z.input<typeof Settings>> {
    const settings = await findGroupSettings(db, groupId)
    if (!settings) throw notFound('group not found')
    return describeSettings(settings)
  }
}

/** The same for a group that does not exist: nobody learns from it which groups there are. */
function notAMember(): Refusal {
  return notFound('the account is not a member of the group')
}

function lastAdmin(): Refusal {
  return conflict('the group would have no admin: make another member admin first')
}

function describeSettings({
  name,
  requiresSecondFactor,
  secondFactorFrom,
  createdAt,
}: GroupSettings): z.input<typeof Settings> {
  return {
    name,
    requires_second_factor: requiresSecondFactor,
    second_factor_from: secondFactorFrom?.toISOString() ?? null,
    created_at: createdAt.toISOString(),
  }
}

function describeUnprotected({
  username,
  displayName,
  groupRole,
}: MemberWithoutFactor): z.input<typeof Unprotected> {
  return { username, name: displayName, role: groupRole }
}

function describeMember({ username, displayName, role }: GroupMember): z.input<typeof Member> {
  return { username, name: displayName, role }
}

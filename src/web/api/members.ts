import * as z from 'zod'
import { findAccountByUsername } from '../../accounts/accounts.ts'
import { roles } from '../../domain/permissions.ts'
import { findMember, type Member as KnownMember, listMembers } from '../../groups/members.ts'
import { changeMember } from '../../groups/membership.ts'
import { type ApiScope, endpoint, NoContent } from './endpoint.ts'
import { notFound } from './errors.ts'
import { type ApiContext, guardRepository, requireOnRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const Member = z
  .object({
    username: z.string().meta({ description: 'Username of the member', example: 'alice' }),
    name: z.string().meta({ description: 'Display name', example: 'Alice Doe' }),
    role: z.enum(roles).meta({ description: 'The stronger of the two roles below' }),
    group_role: z.enum(roles).nullable().meta({ description: 'Role in the whole group' }),
    repository_role: z.enum(roles).nullable().meta({ description: 'Role in this repository alone' }),
  })
  .meta({ id: 'Member' })

const MemberUpdate = z
  .strictObject({ role: z.enum(roles).meta({ description: 'Role in this repository' }) })
  .meta({ id: 'MemberUpdate' })
const MemberPath = RepositoryPath.extend({
  username: z.string().meta({ description: 'Username of the account', example: 'alice' }),
})

/** Members of a repository: `…/members[/<username>]`. These endpoints do not change roles on the group. */
export async function memberRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const membersUrl = '/repositories/:group/:name/members'
  const url = `${membersUrl}/:username`
  const mayRead = guardRepository('readSettings', context)
  const mayManage = guardRepository('manage', context)

  app.get(
    membersUrl,
    endpoint(mayRead, {
      operationId: 'listMembers',
      tag: 'Repositories',
      summary: 'List everyone with a role on a repository',
      description: 'Members of the group are included.',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(Member) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayRead.granted(request)
      return readPage(
        { request, reply, config },
        (part) => listMembers(db, repositoryId, part),
        ({ username }) => username,
        describeMember,
      )
    },
  )

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'getMember',
      tag: 'Repositories',
      summary: 'Get a member of a repository',
      params: MemberPath,
      response: { 200: Member },
    }),
    async (request) => memberOf(mayRead.granted(request).repositoryId, request.params.username),
  )

  app.put(
    url,
    endpoint(mayManage, {
      operationId: 'setMember',
      tag: 'Repositories',
      summary: 'Add a member to a repository, or change its role there',
      description: 'Applications cannot give the role admin.',
      params: MemberPath,
      body: MemberUpdate,
      response: { 200: Member },
    }),
    async (request) => {
      const grant = mayManage.granted(request)
      const { repositoryId, by } = grant
      if (request.body.role === 'admin') requireOnRepository(grant, 'appointAdmin')
      const { username } = request.params
      const account = await findAccountByUsername(db, username)
      if (!account) throw notFound('account not found')
      await changeMember(db, by, { place: { repositoryId }, account, role: request.body.role })
      return memberOf(repositoryId, username)
    },
  )

  app.delete(
    url,
    endpoint(mayManage, {
      operationId: 'removeMember',
      tag: 'Repositories',
      summary: 'Remove a member from a repository',
      description: 'A role on the group does not change.',
      params: MemberPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { repositoryId, by } = mayManage.granted(request)
      const account = await findAccountByUsername(db, request.params.username)
      if (!account) throw notFound('account not found')
      const outcome = await changeMember(db, by, { place: { repositoryId }, account, role: 'none' })
      if (outcome === 'unchanged') throw notFound('the account is not a direct member of the repository')
      return reply.code(204).send()
    },
  )

  async function memberOf(repositoryId: string, username: string): Promise<z.input<typeof Member>> {
    const member = await findMember(db, repositoryId, username)
    if (!member) throw notFound('member not found')
    return describeMember(member)
  }
}

function describeMember({ username, displayName, role, groupRole, repositoryRole }: KnownMember) {
  return { username, name: displayName, role, group_role: groupRole, repository_role: repositoryRole }
}

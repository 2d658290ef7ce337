import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { findAccountByUsername } from '../accounts/accounts.ts'
import { roles } from '../domain/permissions.ts'
import { changeMember } from '../registry/membership.ts'
import { findMember, type Member as KnownMember, listMembers } from '../repositories/members.ts'
import { allowedTo, param } from './admission.ts'
import type { ApiContext } from './context.ts'
import { notFound } from './errors.ts'
import { addInterface, addList } from './interface.ts'
import { readPage } from './paging.ts'

const Member = z.object({
  username: z.string(),
  name: z.string(),
  /** The stronger of the two. */
  role: z.enum(roles),
  group_role: z.enum(roles).nullable(),
  repository_role: z.enum(roles).nullable(),
})

/** Members of a repository: `…/members[/<username>]` (DESIGN §6). A role on the group is not changed here. */
export async function memberRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { db, config } = context
  const membersUrl = '/repositories/:group/:name/members'
  const url = `${membersUrl}/:username`

  addList(
    app,
    {
      url: membersUrl,
      summary: 'Everyone with a role on a repository, through it or its group',
      entrance: allowedTo('readSettings', context),
      item: Member,
    },
    config.baseUrl,
    async ({ admitted, part }) =>
      readPage(
        part,
        (wanted) => listMembers(db, admitted.repositoryId, wanted),
        ({ username }) => username,
        describeMember,
      ),
  )

  addInterface(
    app,
    {
      method: 'GET',
      url,
      summary: 'A member of a repository',
      entrance: allowedTo('readSettings', context),
      answer: Member,
    },
    async ({ request, admitted }) => memberAt(admitted.repositoryId, param(request, 'username')),
  )

  addInterface(
    app,
    {
      method: 'PUT',
      url,
      summary: 'Make an account a member of a repository, or change its role there',
      entrance: allowedTo('manage', context),
      body: z.object({ role: z.enum(roles) }),
      answer: Member,
    },
    async ({ request, admitted, body: { role } }) => {
      const username = param(request, 'username')
      const account = await findAccountByUsername(db, username)
      if (!account) throw notFound('account not found')
      const { repositoryId, author } = admitted
      await changeMember(db, author, { place: { repositoryId }, account, role })
      return memberAt(admitted.repositoryId, username)
    },
  )

  addInterface(
    app,
    {
      method: 'DELETE',
      url,
      summary: 'End a membership of a repository; one of its group stays',
      entrance: allowedTo('manage', context),
    },
    async ({ request, admitted }) => {
      const username = param(request, 'username')
      const account = await findAccountByUsername(db, username)
      if (!account) throw notFound('account not found')
      const { repositoryId, author } = admitted
      const outcome = await changeMember(db, author, { place: { repositoryId }, account, role: 'none' })
      if (outcome === 'unchanged') throw notFound('the account is no member of the repository itself')
    },
  )

  async function memberAt(repositoryId: string, username: string): Promise<z.input<typeof Member>> {
    const member = await findMember(db, repositoryId, username)
    if (!member) throw notFound('member not found')
    return describeMember(member)
  }
}

function describeMember({ username, displayName, role, groupRole, repositoryRole }: KnownMember) {
  return { username, name: displayName, role, group_role: groupRole, repository_role: repositoryRole }
}

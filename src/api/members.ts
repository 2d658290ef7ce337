import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { findAccountByUsername } from '../accounts/accounts.ts'
import { transaction } from '../database/database.ts'
import { roles } from '../domain/permissions.ts'
import { insertEvent, type RegistryAction } from '../registry/tables/events.ts'
import {
  findMember,
  type Member as KnownMember,
  listMembers,
  removeRepositoryMember,
  setRepositoryMember,
} from '../repositories/members.ts'
import { allowedTo, param, type RepositoryAdmission } from './admission.ts'
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
      await note(admitted, 'set-member', { username, role }, (tx) =>
        setRepositoryMember(tx, admitted.repositoryId, account.id, role),
      )
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
      await note(admitted, 'remove-member', { username }, async (tx) => {
        const isRemoved = await removeRepositoryMember(tx, admitted.repositoryId, account.id)
        if (!isRemoved) throw notFound('the account is no member of the repository itself')
      })
    },
  )

  async function memberAt(repositoryId: string, username: string): Promise<z.input<typeof Member>> {
    const member = await findMember(db, repositoryId, username)
    if (!member) throw notFound('member not found')
    return describeMember(member)
  }

  /** Runs a change together with the event that tells of it. */
  async function note(
    { repositoryId, author }: RepositoryAdmission,
    action: RegistryAction,
    details: Record<string, unknown>,
    change: (tx: Parameters<typeof setRepositoryMember>[0]) => Promise<void>,
  ): Promise<void> {
    await transaction(db, async (tx) => {
      await change(tx)
      await insertEvent(tx, author, { repositoryId, packageName: null, version: null, action, details })
    })
  }
}

function describeMember({ username, displayName, role, groupRole, repositoryRole }: KnownMember) {
  return { username, name: displayName, role, group_role: groupRole, repository_role: repositoryRole }
}

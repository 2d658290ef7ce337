import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { roles } from '../domain/permissions.ts'
import { holdersOf, param } from './admission.ts'
import type { ApiContext } from './context.ts'
import { notFound } from './errors.ts'
import { addList } from './interface.ts'
import { readPage } from './paging.ts'
import { isGroupSeen, listReachedGroups, listRepositoriesOfGroup } from './reached.ts'
import { describeRepository, Repository } from './repositories.ts'

const Group = z.object({
  name: z.string(),
  role: z.enum(roles).nullable(),
  created_at: z.iso.datetime(),
})

/** The account's groups, as far as the token reaches: `/api/groups` (DESIGN §6). */
export async function groupRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { db, config } = context
  const entrance = holdersOf(context, 'group-resource:r')

  addList(
    app,
    { url: '/groups', summary: 'Groups of the account', entrance, item: Group },
    config.baseUrl,
    async ({ admitted, part }) =>
      readPage(
        part,
        (wanted) => listReachedGroups(db, admitted, wanted),
        ({ name }) => name,
        ({ name, role, createdAt }) => ({ name, role, created_at: createdAt.toISOString() }),
      ),
  )

  addList(
    app,
    {
      url: '/groups/:group/repositories',
      summary: 'Repositories of a group that the token may see',
      entrance,
      item: Repository,
    },
    config.baseUrl,
    async ({ admitted, part, request }) => {
      const group = param(request, 'group')
      if (!(await isGroupSeen(db, admitted, group))) throw notFound('group not found')
      return readPage(
        part,
        (wanted) => listRepositoriesOfGroup(db, admitted, group, wanted),
        ({ path }) => path.slice(path.indexOf('/') + 1),
        (repository) => describeRepository(repository, config.baseUrl),
      )
    },
  )
}

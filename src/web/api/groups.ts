import * as z from 'zod'
import { roles } from '../../domain/permissions.ts'
import {
  isGroupVisible,
  listAccessibleGroups,
  listRepositoriesOfGroup,
} from '../../groups/accessible-repositories.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import { notFound } from './errors.ts'
import { type ApiContext, guardToken, requireFactorIn } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { describeRepository, RepositoryBody } from './repositories.ts'

const Group = z
  .object({
    name: z.string().meta({ description: 'Name of the group', example: 'acme' }),
    role: z
      .enum(roles)
      .nullable()
      .meta({ description: 'Role of the account on the group; null when it has one on a repository only' }),
    created_at: Moment.meta({ description: 'When the group was created' }),
  })
  .meta({ id: 'Group' })

/** The path of the endpoints below a group. */
export const GroupPath = z.object({
  group: z.string().meta({ description: 'Name of the group', example: 'acme' }),
})

/** The account's groups that the token may access: `/api/groups`. */
export async function groupRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const mayRead = guardToken('listGroups', context)

  app.get(
    '/groups',
    endpoint(mayRead, {
      operationId: 'listGroups',
      tag: 'Groups',
      summary: 'List the groups of the account',
      querystring: PageQuery,
      response: { 200: z.array(Group) },
    }),
    async (request, reply) => {
      return readPage(
        { request, reply, config },
        (part) => listAccessibleGroups(db, mayRead.granted(request), part),
        ({ name }) => name,
        ({ name, role, createdAt }) => ({ name, role, created_at: createdAt.toISOString() }),
      )
    },
  )

  app.get(
    '/groups/:group/repositories',
    endpoint(mayRead, {
      operationId: 'listGroupRepositories',
      tag: 'Groups',
      summary: 'List the repositories of a group that the token may see',
      params: GroupPath,
      querystring: PageQuery,
      response: { 200: z.array(RepositoryBody) },
    }),
    async (request, reply) => {
      const { group } = request.params
      const holder = mayRead.granted(request)
      if (!(await isGroupVisible(db, holder, group))) {
        await requireFactorIn(group, holder.accountId, context)
        throw notFound('group not found')
      }
      return readPage(
        { request, reply, config },
        (part) => listRepositoriesOfGroup(db, holder, group, part),
        ({ path }) => path.slice(path.indexOf('/') + 1),
        (repository) => describeRepository(repository, config.baseUrl),
      )
    },
  )
}

import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { transaction } from '../database/database.ts'
import { roles, visibilities } from '../domain/permissions.ts'
import { insertEvent } from '../registry/tables/events.ts'
import {
  changeRepository,
  deleteRepository,
  findRepository,
  registryUrl,
} from '../repositories/repositories.ts'
import { allowedTo, holdersOf } from './admission.ts'
import type { ApiContext } from './context.ts'
import { notFound } from './errors.ts'
import { addInterface, addList } from './interface.ts'
import { readPage } from './paging.ts'
import { plainText } from './plain-text.ts'
import { listReachedRepositories, type ReachedRepository } from './reached.ts'

/** A repository, as interfaces answer it. */
export const Repository = z.object({
  path: z.string(),
  visibility: z.enum(visibilities),
  description: z.string(),
  role: z.enum(roles).nullable(),
  registry_url: z.url(),
  created_at: z.iso.datetime(),
})

const Changes = z
  .object({
    description: plainText(350),
    visibility: z.enum(visibilities),
  })
  .partial()

/** Repositories: `/api/repositories` and `/api/repositories/<group>/<name>` (DESIGN §6). */
export async function repositoryRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  const { db, config } = context
  const url = '/repositories/:group/:name'

  addList(
    app,
    {
      url: '/repositories',
      summary: 'Repositories on which the account has a role and which the token reaches',
      entrance: holdersOf(context, 'repo-basic-info:r'),
      item: Repository,
    },
    config.baseUrl,
    async ({ admitted, part }) =>
      readPage(
        part,
        (wanted) => listReachedRepositories(db, admitted, wanted),
        ({ path }) => path,
        (repository) => describeRepository(repository, config.baseUrl),
      ),
  )

  addInterface(
    app,
    {
      method: 'GET',
      url,
      summary: 'A repository',
      entrance: allowedTo('describe', context),
      answer: Repository,
    },
    async ({ admitted: { repositoryId, access } }) => {
      const repository = await findRepository(db, repositoryId)
      if (!repository) throw notFound('repository not found')
      return describeRepository({ ...repository, role: access.role }, config.baseUrl)
    },
  )

  addInterface(
    app,
    {
      method: 'PATCH',
      url,
      summary: 'Change description and visibility',
      entrance: allowedTo('manage', context),
      body: Changes,
      answer: Repository,
    },
    async ({ admitted: { repositoryId, author, access }, body }) =>
      transaction(db, async (tx) => {
        const changes = { description: body.description ?? null, visibility: body.visibility ?? null }
        const repository = await changeRepository(tx, repositoryId, changes)
        if (!repository) throw notFound('repository not found')
        const event = { repositoryId, packageName: null, version: null, action: 'change-repository' } as const
        await insertEvent(tx, author, { ...event, details: body })
        return describeRepository({ ...repository, role: access.role }, config.baseUrl)
      }),
  )

  addInterface(
    app,
    {
      method: 'DELETE',
      url,
      summary: 'Delete a repository with everything in it, for good',
      entrance: allowedTo('deleteRepository', context),
    },
    async ({ admitted: { repositoryId, author, path } }) =>
      transaction(db, async (tx) => {
        if (!(await deleteRepository(tx, repositoryId))) throw notFound('repository not found')
        const event = { repositoryId, packageName: null, version: null, action: 'delete-repository' } as const
        await insertEvent(tx, author, { ...event, details: { path } })
      }),
  )
}

/** A repository as `Repository` has it. */
export function describeRepository(
  { path, visibility, description, role, createdAt }: Omit<ReachedRepository, 'id'>,
  baseUrl: string,
): z.input<typeof Repository> {
  return {
    path,
    visibility,
    description,
    role,
    registry_url: registryUrl(baseUrl, path),
    created_at: createdAt.toISOString(),
  }
}

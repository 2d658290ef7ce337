import * as z from 'zod'
import { releaseRules, roles, visibilities } from '../../domain/permissions.ts'
import { plainText } from '../../domain/plain-text.ts'
import {
  type AccessibleRepository,
  listAccessibleRepositories,
} from '../../groups/accessible-repositories.ts'
import { listDeletedRepositories, restorableDays } from '../../groups/deleted-repositories.ts'
import {
  changeRepositoryName,
  deleteRepository,
  restoreRepository,
  setRepository,
} from '../../groups/group-lifecycle.ts'
import { findRepository, findRepositoryByPath, registryUrl } from '../../groups/repositories.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { keepingRules, notFound } from './errors.ts'
import { type ApiContext, guardGroup, guardRepository, guardToken, requireOnRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

/** A repository, as the API returns it. */
export const RepositoryBody = z
  .object({
    path: z.string().meta({ description: 'Group and name', example: 'acme/php' }),
    visibility: z.enum(visibilities).meta({ description: 'Anyone can pull from a public repository' }),
    description: z
      .string()
      .meta({ description: 'What its packages are for', example: 'PHP libraries of Acme' }),
    release: z.enum(releaseRules).meta({
      description: '`reviewed`: uploaded versions are staged until a developer releases them',
    }),
    two_people: z.boolean().meta({
      description: 'Whether nobody releases alone what they staged themselves',
    }),
    role: z.enum(roles).nullable().meta({ description: 'Role of the account; null without membership' }),
    registry_url: z.url().meta({
      description: 'The URL for Composer and for uploads',
      example: 'https://svc.example.com/acme/php/-/packages/',
    }),
    created_at: Moment.meta({ description: 'When it was created' }),
  })
  .meta({ id: 'Repository' })

/** The URL of a repository. */
export const RepositoryPath = z.object({
  group: z.string().meta({ description: 'Name of the group', example: 'acme' }),
  name: z.string().meta({ description: 'Name of the repository', example: 'php' }),
})

const DeletedRepository = z
  .object({
    path: z.string().meta({ description: 'Group and name', example: 'acme/php' }),
    deleted_at: Moment.meta({ description: 'When it was deleted' }),
    restorable_until: Moment.meta({ description: 'When it is removed for good' }),
  })
  .meta({ id: 'DeletedRepository' })

const RepositoryUpdate = z
  .strictObject({
    name: z
      .string()
      .max(100)
      .meta({ description: 'A new name. The old URLs keep working', example: 'packages' }),
    description: plainText(350).meta({
      description: 'What its packages are for',
      example: 'PHP libraries of Acme',
    }),
    visibility: z.enum(visibilities).meta({ description: 'Anyone can pull from a public repository' }),
    release: z.enum(releaseRules).meta({
      description: '`reviewed`: uploaded versions are staged until a developer releases them',
    }),
    two_people: z.boolean().meta({
      description: 'Whether nobody releases alone what they staged themselves',
    }),
  })
  .partial()
  .meta({ id: 'RepositoryUpdate', description: 'Missing members keep their values' })

/** Repositories: `/api/repositories` and `/api/repositories/<group>/<name>`. */
export async function repositoryRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const url = '/repositories/:group/:name'
  const mayList = guardToken('listRepositories', context)
  const mayDescribe = guardRepository('describe', context)
  const mayManage = guardRepository('manage', context)
  const mayDelete = guardRepository('deleteRepository', context)
  const mayRestore = guardGroup('restoreRepository', context)

  app.get(
    '/repositories',
    endpoint(mayList, {
      operationId: 'listRepositories',
      tag: 'Repositories',
      summary: 'List the repositories of the account that the token can access',
      querystring: PageQuery,
      response: { 200: z.array(RepositoryBody) },
    }),
    async (request, reply) => {
      return readPage(
        { request, reply, config },
        (part) => listAccessibleRepositories(db, mayList.granted(request), part),
        ({ path }) => path,
        (repository) => describeRepository(repository, config.baseUrl),
      )
    },
  )

  app.get(
    url,
    endpoint(mayDescribe, {
      operationId: 'getRepository',
      tag: 'Repositories',
      summary: 'Get a repository',
      params: RepositoryPath,
      response: { 200: RepositoryBody },
    }),
    async (request) => {
      const { repositoryId, access } = mayDescribe.granted(request)
      const repository = await findRepository(db, repositoryId)
      if (!repository) throw notFound('repository not found')
      return describeRepository({ ...repository, role: access.role }, config.baseUrl)
    },
  )

  app.patch(
    url,
    endpoint(mayManage, {
      operationId: 'updateRepository',
      tag: 'Repositories',
      summary: 'Change the name or the settings',
      description: 'Applications cannot make a private repository public, or end the review of releases.',
      params: RepositoryPath,
      body: RepositoryUpdate,
      response: { 200: RepositoryBody },
    }),
    async (request) => {
      const grant = mayManage.granted(request)
      const { repositoryId, by, access } = grant
      const { name, two_people: twoPeople, ...others } = request.body
      const settings = { ...others, ...(twoPeople !== undefined && { twoPeople }) }
      const { visibility, release } = settings
      if (visibility === 'public' && access.visibility !== 'public') requireOnRepository(grant, 'makePublic')
      if (release === 'direct' || twoPeople === false) requireOnRepository(grant, 'endReviews')
      // Rename first: if the name is rejected, nothing else may change.
      if (name !== undefined) await keepingRules(() => changeRepositoryName(db, by, repositoryId, name))
      const isRenameOnly = name !== undefined && Object.keys(settings).length === 0
      const repository = isRenameOnly
        ? await findRepository(db, repositoryId)
        : await setRepository(db, by, repositoryId, settings)
      if (!repository) throw notFound('repository not found')
      return describeRepository({ ...repository, role: access.role }, config.baseUrl)
    },
  )

  app.delete(
    url,
    endpoint(mayDelete, {
      operationId: 'deleteRepository',
      tag: 'Repositories',
      summary: 'Delete a repository',
      description: `The repository disappears with everything in it. An admin of the group can restore it for ${restorableDays} days.`,
      params: RepositoryPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const { repositoryId, by } = mayDelete.granted(request)
      // The URL may have a former name of the repository.
      const repository = await findRepository(db, repositoryId)
      const isDeleted = repository !== null && (await deleteRepository(db, by, repository))
      if (!isDeleted) throw notFound('repository not found')
      return reply.code(204).send()
    },
  )

  app.post(
    `${url}/restore`,
    endpoint(mayRestore, {
      operationId: 'restoreRepository',
      tag: 'Repositories',
      summary: 'Restore a deleted repository',
      description: 'It comes back with everything in it.',
      params: RepositoryPath,
      response: { 200: RepositoryBody },
    }),
    async (request) => {
      const { groupId: id, name, by } = mayRestore.granted(request)
      const path = await restoreRepository(db, by, { id, name }, request.params.name)
      const repository = await findRepositoryByPath(db, path)
      const found = repository && (await findRepository(db, repository.id))
      if (!found) throw notFound('repository not found')
      return describeRepository({ ...found, role: 'admin' }, config.baseUrl)
    },
  )

  app.get(
    '/groups/:group/deleted-repositories',
    endpoint(mayRestore, {
      operationId: 'listDeletedRepositories',
      tag: 'Repositories',
      summary: 'List the deleted repositories of a group that can be restored',
      params: RepositoryPath.pick({ group: true }),
      querystring: PageQuery,
      response: { 200: z.array(DeletedRepository) },
    }),
    async (request, reply) =>
      readPage(
        { request, reply, config },
        (part) => listDeletedRepositories(db, mayRestore.granted(request).groupId, part),
        ({ path }) => path,
        ({ path, deletedAt, restorableUntil }) => ({
          path,
          deleted_at: deletedAt.toISOString(),
          restorable_until: restorableUntil.toISOString(),
        }),
      ),
  )
}

/** Formats a repository for a response. */
export function describeRepository(
  { path, visibility, description, release, twoPeople, role, createdAt }: Omit<AccessibleRepository, 'id'>,
  baseUrl: string,
): z.input<typeof RepositoryBody> {
  return {
    path,
    visibility,
    description,
    release,
    two_people: twoPeople,
    role,
    registry_url: registryUrl(baseUrl, path),
    created_at: createdAt.toISOString(),
  }
}

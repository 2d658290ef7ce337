import * as z from 'zod'
import { type DeployRight, deployRights } from '../../domain/permissions.ts'
import { plainText } from '../../domain/plain-text.ts'
import { rowId } from '../../domain/row-id.ts'
import { coversAll } from '../../domain/scopes.ts'
import {
  createDeployToken,
  findDeployToken,
  type DeployToken as KnownDeployToken,
  listDeployTokens,
  revokeDeployToken,
} from '../../groups/deploy-tokens.ts'
import { findRepositoryByPath } from '../../groups/repositories.ts'
import { type ApiScope, endpoint, Moment, NoContent } from './endpoint.ts'
import { insufficientScope, keepingRules, notFound } from './errors.ts'
import { GroupPath } from './groups.ts'
import { type ApiContext, guardGroup } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'

const rights = Object.keys(deployRights) as [DeployRight, ...DeployRight[]]
const right = z.enum(rights).meta({ description: '`read` installs packages; `publish` also publishes them' })

const DeployToken = z
  .object({
    id: z.int().meta({ description: 'Id of the deploy token', example: 7 }),
    name: z.string().meta({ description: 'The name that its creator gave it', example: 'build server' }),
    right,
    repositories: z
      .array(z.string())
      .nullable()
      .meta({
        description: 'Paths of the repositories. Null for every repository of the group',
        example: ['acme/php'],
      }),
    made_by: z.string().nullable().meta({
      description: 'Username; null for the command line, "deleted account" after the account was deleted',
      example: 'alice',
    }),
    created_at: Moment.meta({ description: 'When it was created' }),
    last_used_at: Moment.nullable().meta({ description: 'Null when it was never used' }),
    expires_at: Moment.nullable().meta({ description: 'When it expires. Null for no expiration' }),
  })
  .meta({ id: 'DeployToken' })

const NewDeployToken = DeployToken.extend({
  token: z.string().meta({ description: 'The token. It is returned only once', example: 'svcd_9hWk…' }),
}).meta({ id: 'NewDeployToken' })

const DeployTokenDraft = z
  .strictObject({
    name: plainText(100, 1).meta({ description: 'A name that tells what uses it', example: 'build server' }),
    right,
    repositories: z
      .array(z.string().max(200))
      .min(1)
      .max(500)
      .optional()
      .meta({
        description: 'Paths of repositories of the group. Without it, every repository of the group',
        example: ['acme/php'],
      }),
    expires_in_days: z.int().min(1).max(3650).nullable().optional().meta({
      description: 'Lifetime in days, 90 by default. Null for no expiration',
      example: 90,
    }),
  })
  .meta({ id: 'DeployTokenDraft' })

const TokenPath = GroupPath.extend({
  token: rowId.meta({ description: 'Id of the deploy token', example: '7' }),
})

/** Deploy tokens of a group, for its admins: `/api/groups/<group>/deploy-tokens`. */
export async function deployTokenRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const { db, config } = context
  const url = '/groups/:group/deploy-tokens'
  const mayRead = guardGroup('readGroup', context)
  const mayManage = guardGroup('manageGroup', context)
  const mayMake = guardGroup('makeDeployToken', context)

  app.get(
    url,
    endpoint(mayRead, {
      operationId: 'listDeployTokens',
      tag: 'Groups',
      summary: 'List the deploy tokens of a group that are not revoked, newest first',
      params: GroupPath,
      querystring: PageQuery,
      response: { 200: z.array(DeployToken) },
    }),
    async (request, reply) => {
      const place = { groupId: mayRead.granted(request).groupId, repositoryId: null }
      return readPage(
        { request, reply, config },
        (part) => listDeployTokens(db, place, part),
        ({ id }) => id,
        describe,
      )
    },
  )

  app.post(
    url,
    endpoint(mayMake, {
      operationId: 'createDeployToken',
      tag: 'Groups',
      summary: 'Create a deploy token',
      description:
        'A deploy token belongs to the group, not to an account. The token of the request also needs the scopes of the right.',
      params: GroupPath,
      body: DeployTokenDraft,
      response: { 201: NewDeployToken },
    }),
    async (request, reply) => {
      const grant = mayMake.granted(request)
      const { name, right, repositories: paths, expires_in_days: inDays = 90 } = request.body
      // Otherwise a token could create one with more access than its own.
      const needed = deployRights[right].scopes
      const missing = needed.find((scope) => !coversAll(grant.credential.scopes, [scope]))
      if (missing !== undefined) throw insufficientScope(missing, needed)
      const repositories = paths === undefined ? 'all' : await findRepositories(request.params.group, paths)
      const expiry = inDays === null ? 'never' : { inDays }
      const wanted = { groupId: grant.groupId, name, right, repositories, expiry } as const
      const made = await keepingRules(() => createDeployToken(context, grant.by, wanted))
      const token = await findDeployToken(db, { groupId: grant.groupId, repositoryId: null }, made.id)
      if (!token) throw notFound('deploy token not found')
      return reply.code(201).send({ ...describe(token), token: made.token })
    },
  )

  app.delete(
    `${url}/:token`,
    endpoint(mayManage, {
      operationId: 'revokeDeployToken',
      tag: 'Groups',
      summary: 'Revoke a deploy token at once',
      params: TokenPath,
      response: { 204: NoContent },
    }),
    async (request, reply) => {
      const grant = mayManage.granted(request)
      const place = { groupId: grant.groupId, repositoryId: null }
      const name = await revokeDeployToken(db, grant.by, place, { id: request.params.token })
      if (name === null) throw notFound('deploy token not found')
      return reply.code(204).send()
    },
  )

  async function findRepositories(group: string, paths: string[]): Promise<{ id: string; path: string }[]> {
    const found = []
    for (const path of new Set(paths)) {
      const repository = path.startsWith(`${group}/`) ? await findRepositoryByPath(db, path) : null
      if (!repository) throw notFound('the group has no such repository')
      found.push(repository)
    }
    return found
  }
}

function describe(token: KnownDeployToken): z.input<typeof DeployToken> {
  const { id, name, right, isForAll, repositories, madeBy, createdAt, lastUsedAt, expiresAt } = token
  return {
    id: Number(id),
    name,
    right,
    repositories: isForAll ? null : repositories,
    made_by: madeBy,
    created_at: createdAt.toISOString(),
    last_used_at: lastUsedAt?.toISOString() ?? null,
    expires_at: expiresAt?.toISOString() ?? null,
  }
}

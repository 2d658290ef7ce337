import * as z from 'zod'
import { tokenKinds } from '../../domain/secrets.ts'
import { listEvents, listSiteEvents, type RegistryEvent } from '../../events/registry-events.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import type { ApiContext } from './guards.ts'
import { guardAdministrator, guardRepository } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const Event = z
  .object({
    id: z.int().meta({ description: 'Grows with every event', example: 4711 }),
    happened_at: Moment.meta({ description: 'When it happened' }),
    action: z.string().meta({ description: 'What happened', example: 'publish' }),
    package: z
      .string()
      .nullable()
      .meta({ description: 'Null for an event of the whole repository', example: 'acme/hello' }),
    version: z
      .string()
      .nullable()
      .meta({ description: 'Null for an event of the whole package', example: '1.0.0' }),
    account: z.string().nullable().meta({
      description:
        'Username; null for the command line and for deploy tokens, "deleted account" after the account was deleted',
      example: 'alice',
    }),
    token: z
      .object({
        kind: z.enum(tokenKinds).meta({ description: 'The kind of token' }),
        id: z.int().meta({ description: 'Id of the token', example: 7 }),
        name: z
          .string()
          .nullable()
          .meta({ description: 'Name of a deploy token; null for other tokens', example: 'build server' }),
      })
      .nullable()
      .meta({ description: 'The token that was used' }),
    ip: z.string().nullable().meta({ description: 'Client IP', example: '192.0.2.17' }),
    details: z
      .record(z.string(), z.unknown())
      .meta({ description: 'More about it, by action', example: { size: 12_345 } }),
  })
  .meta({ id: 'Event' })

const SiteEvent = Event.extend({
  repository: z
    .string()
    .nullable()
    .meta({ description: 'Path. For a deleted repository, its last path', example: 'acme/php' }),
  group: z
    .string()
    .nullable()
    .meta({ description: 'Set when the event is about a whole group', example: 'acme' }),
}).meta({ id: 'SiteEvent' })

const SiteEventsQuery = PageQuery.extend({
  repository: z
    .string()
    .regex(/^[^/\0]{1,64}\/[^/\0]{1,100}$/, { message: 'must be a path such as acme/php' })
    .optional()
    .meta({ description: 'Only events of repositories that have, or had, this path', example: 'acme/php' }),
})

/** Events of a repository, `…/events`, and of the whole site for its administrators, `/api/events`. */
export async function eventRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const mayRead = guardRepository('readSettings', context)
  const mayReadAll = guardAdministrator('readSiteEvents', context)

  app.get(
    '/repositories/:group/:name/events',
    endpoint(mayRead, {
      operationId: 'listEvents',
      tag: 'Repositories',
      summary: 'List the events of a repository, latest first',
      description:
        'Admins of the group see the events of the group too. Other admins of the repository see those that concern it, without client IPs.',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(Event) },
    }),
    async (request, reply) => {
      const { repositoryId, access } = mayRead.granted(request)
      return readPage(
        { request, reply, config: context.config },
        (part) => listEvents(context.db, repositoryId, part, access),
        ({ id }) => id,
        describeEvent,
      )
    },
  )

  app.get(
    '/events',
    endpoint(mayReadAll, {
      operationId: 'listSiteEvents',
      tag: 'Repositories',
      summary: 'List the events of all repositories, also deleted ones, for site administrators',
      querystring: SiteEventsQuery,
      response: { 200: z.array(SiteEvent) },
    }),
    async (request, reply) => {
      return readPage(
        { request, reply, config: context.config },
        (part) => listSiteEvents(context.db, request.query.repository ?? null, part),
        ({ id }) => id,
        ({ repositoryPath, groupName, ...event }) => ({
          ...describeEvent(event),
          repository: repositoryPath,
          group: groupName,
        }),
      )
    },
  )
}

function describeEvent({ tokenKind, tokenId, tokenName, ...event }: RegistryEvent): z.input<typeof Event> {
  return {
    id: Number(event.id),
    happened_at: event.happenedAt.toISOString(),
    action: event.action,
    package: event.packageName,
    version: event.version,
    account: event.username,
    token: tokenKind && { kind: tokenKind, id: Number(tokenId), name: tokenName },
    ip: event.ip,
    details: event.details,
  }
}

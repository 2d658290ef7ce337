import { z } from 'zod'
import { tokenKinds } from '../domain/secrets.ts'
import { listEvents, listSiteEvents, type RegistryEvent } from '../registry/tables/events.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import type { ApiContext } from './guards.ts'
import { guardRepository, guardSite } from './guards.ts'
import { PageQuery, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const Event = z
  .object({
    id: z.int(),
    happened_at: Moment,
    action: z.string().meta({ example: 'publish' }),
    package: z.string().nullable().meta({ example: 'acme/hello' }),
    version: z.string().nullable().meta({ example: '1.0.0' }),
    account: z.string().nullable().meta({
      description:
        'Username; null for the command line and for deploy tokens, "deleted account" after the account was deleted',
    }),
    token: z
      .object({
        kind: z.enum(tokenKinds),
        id: z.int(),
        name: z.string().nullable().meta({ description: 'Name of a deploy token; null for other tokens' }),
      })
      .nullable()
      .meta({ description: 'The token that was used' }),
    address: z.string().nullable().meta({ description: 'Client IP' }),
    details: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'Event' })

const SiteEvent = Event.extend({
  repository: z
    .string()
    .nullable()
    .meta({ description: 'Path. For a deleted repository, its last path', example: 'acme/php' }),
  group: z.string().nullable().meta({ description: 'Set when the event is about a whole group' }),
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
  const mayReadAll = guardSite(context, 'registry-manage:r')

  app.get(
    '/repositories/:group/:name/events',
    endpoint(mayRead, {
      operationId: 'listEvents',
      tag: 'Repositories',
      summary: 'List the events of a repository, latest first',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(Event) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayRead.granted(request)
      return readPage(
        { request, reply, config: context.config },
        (part) => listEvents(context.db, repositoryId, part),
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
    address: event.address,
    details: event.details,
  }
}

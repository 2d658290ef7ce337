import { z } from 'zod'
import { listEvents, type RegistryEvent } from '../registry/tables/events.ts'
import type { ApiContext } from './context.ts'
import { type ApiScope, endpoint, Moment } from './endpoint.ts'
import { guardRepository } from './guards.ts'
import { PageQuery, pageHeaders, partOf, readPage } from './paging.ts'
import { RepositoryPath } from './repositories.ts'

const Event = z
  .object({
    id: z.int(),
    happened_at: Moment,
    action: z.string().meta({ example: 'publish' }),
    package: z.string().nullable().meta({ example: 'acme/hello' }),
    version: z.string().nullable().meta({ example: '1.0.0' }),
    account: z
      .string()
      .nullable()
      .meta({ description: 'Username; null for the command line, and once the account is gone' }),
    token: z
      .object({ kind: z.enum(['access', 'personal']), id: z.int() })
      .nullable()
      .meta({ description: 'The token that was used' }),
    address: z.string().nullable().meta({ description: 'Client IP' }),
    details: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'Event' })

/** Who did what, with which token, when and from which IP: `…/events`. */
export async function eventRoutes(app: ApiScope, context: ApiContext): Promise<void> {
  const mayRead = guardRepository('readSettings', context)

  app.get(
    '/repositories/:group/:name/events',
    endpoint(mayRead, {
      operationId: 'listEvents',
      tag: 'Repositories',
      summary: 'List what was done in a repository, the latest first',
      params: RepositoryPath,
      querystring: PageQuery,
      response: { 200: z.array(Event) },
    }),
    async (request, reply) => {
      const { repositoryId } = mayRead.granted(request)
      const { items, next } = await readPage(
        partOf(request.query),
        (part) => listEvents(context.db, repositoryId, part),
        ({ id }) => id,
        describeEvent,
      )
      reply.headers(pageHeaders(context.config.baseUrl, request.url, next))
      return items
    },
  )
}

function describeEvent({ tokenKind, tokenId, ...event }: RegistryEvent): z.input<typeof Event> {
  return {
    id: Number(event.id),
    happened_at: event.happenedAt.toISOString(),
    action: event.action,
    package: event.packageName,
    version: event.version,
    account: event.username,
    token: tokenKind && { kind: tokenKind, id: Number(tokenId) },
    address: event.address,
    details: event.details,
  }
}

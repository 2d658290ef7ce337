import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { listEvents, type RegistryEvent } from '../registry/tables/events.ts'
import { allowedTo } from './admission.ts'
import type { ApiContext } from './context.ts'
import { addList } from './interface.ts'
import { readPage } from './paging.ts'

const Event = z.object({
  id: z.int(),
  happened_at: z.iso.datetime(),
  action: z.string(),
  package: z.string().nullable(),
  version: z.string().nullable(),
  /** A username; null for the command line, and once the account is gone. */
  account: z.string().nullable(),
  token: z.object({ kind: z.enum(['access', 'personal']), id: z.int() }).nullable(),
  address: z.string().nullable(),
  details: z.record(z.string(), z.unknown()),
})

/** Who did what, with which token, when and from where: `…/events`. */
export async function eventRoutes(app: FastifyInstance, context: ApiContext): Promise<void> {
  addList(
    app,
    {
      url: '/repositories/:group/:name/events',
      summary: 'What was done in a repository, the latest first',
      entrance: allowedTo('readSettings', context),
      item: Event,
    },
    context.config.baseUrl,
    async ({ admitted, part }) =>
      readPage(
        part,
        (wanted) => listEvents(context.db, admitted.repositoryId, wanted),
        ({ id }) => id,
        describeEvent,
      ),
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

import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { pageOf } from '../../../domain/paging.ts'
import { listRepositoryEvents } from '../../../events/registry-events.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { type EventRows, showEvent } from '../event-rows.ts'
import { type PagesContext, permittedRepository } from '../permit.ts'

const eventsPerPage = 50

const activityPage = page<EventRows & { repository: VisibleRepository }>('pages/activity')

const ActivityQuery = z.object({ after: text })

/** `GET /<group>/<name>/-/activity`: what was done in a repository, latest first. */
export async function activityRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const url = '/:group/:name/-/activity'
  app.get<{ Params: { group: string; name: string } }>(
    url,
    signedIn(context, async ({ session }, request, reply) => {
      const repository = await permittedRepository(context.db, request.params, session, 'readSettings')
      const { after } = readQuery(ActivityQuery, request)
      const reader = {
        accountId: session.account.id,
        resourceScope: 'all',
        tokenKind: null,
        tokenId: null,
      } as const
      const { rows, next } = await pageOf(
        (part) => listRepositoryEvents(context.db, repository.id, part, reader),
        { after, limit: eventsPerPage },
        ({ id }) => id,
      )
      const links = { package: (_: unknown, name: string) => `/${repository.path}/packages/${name}` }
      return activityPage(reply, session, {
        repository,
        events: rows.map(({ repositoryPath: _path, groupName: _group, ...event }) => showEvent(event, links)),
        isContinued: after !== '',
        isFiltered: false,
        next: next && `?${new URLSearchParams({ after: next })}`,
      })
    }),
  )
}

import type { FastifyInstance } from 'fastify'
import { areaNames } from '../../../events/actions.ts'
import { describeEvent } from '../../../events/event.ts'
import { countEvents, listEvents } from '../../../events/event-list.ts'
import { findApplicationByClientId } from '../../../oauth/applications.ts'
import { isClientId } from '../../../oauth/client-id.ts'
import { page } from '../../pages.ts'
import { type EventPage, type EventSource, readEventPage } from '../event-filter.ts'
import type { AdminContext } from './administrator.ts'

const eventsPage = page<EventPage>('admin/events')

/** `/admin/events`: all events of the site, with filters and exports. */
export async function adminEventRoutes(app: FastifyInstance, { db, sessionOf }: AdminContext): Promise<void> {
  app.get('/admin/events', async (request, reply) => {
    const session = sessionOf(request)
    const source: EventSource = {
      db,
      fields: [
        'account',
        'actor',
        'application',
        'action',
        'repository',
        'package',
        'means',
        'ip',
        'since',
        'until',
      ],
      areas: areaNames,
      list: (filter, part) => listEvents(db, filter, part, session.account.id),
      count: (filter, most) => countEvents(db, filter, most),
      describe: describeEvent,
      findApplicationId: async (clientId) =>
        isClientId(clientId) ? ((await findApplicationByClientId(db, clientId))?.id ?? null) : null,
      namesUnknownAccounts: true,
      isOfOneGroup: false,
    }
    const content = await readEventPage(request, reply, source)
    return 'events' in content ? eventsPage(reply, session, content) : content
  })
}

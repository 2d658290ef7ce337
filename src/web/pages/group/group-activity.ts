import type { FastifyInstance } from 'fastify'
import { areaNames } from '../../../events/actions.ts'
import { describeEvent } from '../../../events/event.ts'
import { countEvents, listGroupEvents } from '../../../events/event-list.ts'
import type { VisibleGroup } from '../../../groups/groups.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { type EventPage, readEventPage } from '../event-filter.ts'
import { managedGroup, type PagesContext } from '../permit.ts'

const activityPage = page<EventPage & { group: VisibleGroup }>('pages/group-activity')

/** `GET /<group>/-/activity`: what was done in a group and its repositories, for its admins, with filters and exports. */
export async function groupActivityRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { db } = context
  app.get<{ Params: { group: string } }>(
    '/:group/-/activity',
    signedIn(context, async ({ session }, request, reply) => {
      const group = await managedGroup(db, request.params.group, session, 'readGroupEvents')
      const content = await readEventPage(request, reply, {
        db,
        fields: ['account', 'action', 'repository', 'package', 'means', 'since', 'until'],
        areas: areaNames.filter((area) => area !== 'accounts' && area !== 'applications'),
        list: (filter, part) => listGroupEvents(db, group.id, filter, part, session.account.id),
        count: (filter, most) => countEvents(db, { ...filter, groupId: group.id }, most),
        describe: describeEvent,
        namesUnknownAccounts: false,
        isOfOneGroup: true,
      })
      return 'events' in content ? activityPage(reply, session, { ...content, group }) : content
    }),
  )
}

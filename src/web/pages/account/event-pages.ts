import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import { listEvents } from '../../../events/event-list.ts'
import { readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'
import { type EventRows, showEvent } from '../event-rows.ts'

const eventsPerPage = 50

const securityPage = page<EventRows>('accounts/security')
const SecurityQuery = z.object({ after: text })

/** `/settings/security`: the events of the signed-in account. */
export async function securityRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get(
    '/settings/security',
    signedIn(context, async ({ session }, request, reply) => {
      const { after } = readQuery(SecurityQuery, request)
      const { rows, next } = await pageOf(
        (part) => listEvents(context.db, { subjectId: session.account.id }, part),
        { after: after || null, limit: eventsPerPage },
        ({ key }) => key,
      )
      return securityPage(reply, session, {
        events: rows.map(({ username: _username, ...event }) => showEvent(event)),
        isContinued: after !== '',
        isFiltered: false,
        next: next && `?${new URLSearchParams({ after: next })}`,
      })
    }),
  )
}

import type { FastifyInstance } from 'fastify'
import type pg from 'pg'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { pageOf } from '../../../domain/paging.ts'
import {
  describeAction,
  describeActor,
  describeBrowser,
  describeSubject,
} from '../../../events/event-words.ts'
import { type EventFilter, type IdentityEvent, listIdentityEvents } from '../../../events/identity-events.ts'
import { readQuery, text } from '../../forms.ts'
import { page } from '../../pages.ts'
import { signedIn } from '../../visit.ts'

const eventsPerPage = 50

/** An event as a page shows it. */
export interface ShownEvent {
  happenedAt: Date
  what: string
  subject: string
  username: string | null
  by: string
  ip: string | null
  browser: string
}

/** A page of events. */
export interface EventList {
  events: ShownEvent[]
  isContinued: boolean
  isFiltered: boolean
  /** The query of the next page; null on the last one. */
  next: string | null
}

const securityPage = page<EventList>('accounts/security')
const SecurityQuery = z.object({ after: text })

/** `/settings/security`: the events of the signed-in account. */
export async function securityRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get(
    '/settings/security',
    signedIn(context, async ({ session }, request, reply) => {
      const { after } = readQuery(SecurityQuery, request)
      const list = await readEventPage(context.db, { accountId: session.account.id }, {}, after)
      return securityPage(reply, session, list)
    }),
  )
}

/** Reads a page of events. `query` is the query of the page without `after`. */
export async function readEventPage(
  db: pg.Pool,
  filter: EventFilter,
  query: Record<string, string>,
  after: string,
): Promise<EventList> {
  const { rows, next } = await pageOf(
    (part) => listIdentityEvents(db, filter, part),
    { after: after || null, limit: eventsPerPage },
    ({ id }) => id,
  )
  return {
    events: rows.map(showEvent),
    isContinued: after !== '',
    isFiltered: queryOf(query) !== '',
    next: next && `?${queryOf({ ...query, after: next })}`,
  }
}

/** Describes an event for a page. */
export function showEvent(event: IdentityEvent): ShownEvent {
  return {
    happenedAt: event.happenedAt,
    what: describeAction(event.action),
    subject: describeSubject(event),
    username: event.username,
    by: describeActor(event),
    ip: event.ip,
    browser: event.userAgent === null ? '' : describeBrowser(event.userAgent),
  }
}

/** Returns the fields that are not empty as a query. */
export function queryOf(fields: Record<string, string>): string {
  return new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== '')).toString()
}

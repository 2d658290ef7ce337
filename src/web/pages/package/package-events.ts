import type { FastifyRequest } from 'fastify'
import * as z from 'zod'
import type { Session } from '../../../accounts/sessions.ts'
import type { Queryable } from '../../../database/database.ts'
import { pageOf } from '../../../domain/paging.ts'
import { listPackageEvents } from '../../../events/registry-events.ts'
import type { VisibleRepository } from '../../../groups/repositories.ts'
import { readQuery, text } from '../../forms.ts'
import { type EventRows, showEvent } from '../event-rows.ts'
import { may } from '../permit.ts'

const eventsPerPage = 50

const ActivityQuery = z.object({ after: text })

/** Reads the requested part of the events of a package, latest first. Only admins see tokens and client IPs. */
export async function readPackageEvents(
  db: Queryable,
  request: FastifyRequest,
  { repository, session }: { repository: VisibleRepository; session: Session | null },
  packageName: string,
): Promise<EventRows> {
  const { after } = readQuery(ActivityQuery, request)
  const { rows, next } = await pageOf(
    (part) => listPackageEvents(db, repository.id, packageName, part, session?.account.id ?? null),
    { after, limit: eventsPerPage },
    ({ id }) => id,
  )
  const events = rows.map(({ packageName: _packageName, ...event }) => showEvent(event))
  const maySeeOrigins = may(repository, session, 'readSettings')
  return {
    events: maySeeOrigins ? events : events.map((event) => ({ ...event, means: '', ip: null })),
    isContinued: after !== '',
    isFiltered: false,
    next: next && `?${new URLSearchParams({ after: next })}`,
  }
}

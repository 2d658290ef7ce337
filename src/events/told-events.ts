import type { Queryable } from '../database/database.ts'
import { type Event, eventColumns, eventJoins } from './event.ts'

/** Finds events of any kind, as mails tell of them: without client IPs and browsers. Returns them by id. */
export async function findEvents(db: Queryable, ids: readonly string[]): Promise<Map<string, Event>> {
  if (ids.length === 0) return new Map()
  const { rows } = await db.query<Event>(
    `select ${eventColumns({ ip: 'null', userAgent: 'null', requestId: 'null' })}
       from event e ${eventJoins}
      where e.id = any($1)`,
    [ids],
  )
  return new Map(rows.map((row) => [row.id, row]))
}

import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { Log } from '../domain/log.ts'
import { describeIdentityEvent, type Event, eventColumns, eventJoins, isIdentityEvent } from './event.ts'

/** Finds an identity event. Null when it is unknown, or was removed because of its age. */
export async function findIdentityEvent(db: Queryable, id: string): Promise<Event | null> {
  const { rows } = await db.query<Event>(
    `select ${eventColumns()} from event e ${eventJoins} where e.id = $1 and ${isIdentityEvent}`,
    [id],
  )
  return rows[0] ?? null
}

/**
 * Writes at most `limit` events that are not logged yet to the log. Returns their ids. Because of the limit in the
 * statement, PostgreSQL uses the index of the events, also without statistics. Otherwise it would read the whole table.
 */
export async function logIdentityEvents(tx: pg.PoolClient, log: Log, limit: number): Promise<string[]> {
  const { rows } = await tx.query<Event>(
    `with taken as (
       delete from unlogged_identity_event
        where event_id in (select event_id from unlogged_identity_event order by event_id limit $1 for update skip locked)
       returning event_id
     )
     select ${eventColumns()}
       from taken t
      cross join lateral (select e.* from event e where e.id = t.event_id and ${isIdentityEvent} limit 1) e
       ${eventJoins}
      order by e.id`,
    [limit],
  )
  for (const row of rows)
    log.info({ event: `identity.${row.action}`, ...describeIdentityEvent(row) }, 'identity event')
  return rows.map(({ id }) => id)
}

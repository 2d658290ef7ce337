import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { Log } from '../domain/log.ts'
import type { ListPart } from '../domain/paging.ts'
import type { Principal } from '../domain/principal.ts'
import { readRowId } from '../domain/row-id.ts'

/** A stored identity event. */
export interface IdentityEvent {
  id: string
  happenedAt: Date
  /** One of `identityWords`. A newer release may have more. */
  action: string
  /** The account that it is about. Null for an application, or for a sign-in with an unknown name. */
  username: string | null
  /** The application that it is about. */
  application: string | null
  clientId: string | null
  /** The account that acted. Null for a command, an application, or an unknown person. */
  actor: string | null
  via: Principal['via'] | null
  ip: string | null
  userAgent: string | null
  requestId: string | null
  details: Record<string, unknown>
}

/** Which events are listed. */
export interface EventFilter {
  /** The account that an event is about. */
  accountId?: string | null
  /** The account that acted. */
  actorId?: string | null
  /** The application that an event is about. */
  applicationId?: string | null
  action?: string | null
  /** Any of these actions. */
  actions?: readonly string[] | null
  ip?: string | null
  /** Only events from this time on. */
  since?: Date | null
  /** Only events before this time. */
  until?: Date | null
}

/** A deleted account has no row, and no event contains its name. */
const nameOf = (id: string, username: string) =>
  `case when ${id} is null then null else coalesce(${username}, 'deleted account') end`

/** SQL for the columns of an identity event `e`, with `eventJoins`. */
export const identityColumns = `e.id, e.happened_at as "happenedAt", e.action, ${nameOf('e.account_id', 'u.username')} as username,
            c.name as application, c.client_id as "clientId", ${nameOf('e.actor_id', 'a.username')} as actor, e.via,
            host(e.address) as ip, e.user_agent as "userAgent", e.request_id as "requestId",
            named_details(e.details) as details`

/** SQL that tells whether an event `e` is an identity event. Ids are unique among these. */
export const isIdentityEvent = 'e.repository_id is null and e.group_id is null'

/** SQL that joins the accounts and the application of an event `e`. */
export const eventJoins = `left join account u on u.id = e.account_id
       left join account a on a.id = e.actor_id
       left join application c on c.id = e.application_id`

/**
 * Ids grow with time, except in concurrent transactions. So this many ids before the first and after the last id of a
 * time range are read too, and compared by their time.
 */
const concurrentIds = 10_000

/** Lists events, latest first; `after` is the id of one of them. */
export async function listIdentityEvents(
  db: Queryable,
  {
    accountId = null,
    actorId = null,
    applicationId = null,
    action = null,
    actions = null,
    ip = null,
    since = null,
    until = null,
  }: EventFilter,
  { after, limit }: ListPart,
): Promise<IdentityEvent[]> {
  const before = readRowId(after)
  const values: unknown[] = [before, limit]
  const conditions = [isIdentityEvent, '($1::bigint is null or id < $1)']
  const add = (condition: string, value: string | Date) => {
    values.push(value)
    conditions.push(`${condition} $${values.length}`)
  }
  // Use only the given conditions, so that an index serves each of them.
  if (accountId !== null) add('account_id =', accountId)
  if (action !== null) add('action =', action)
  if (ip !== null) add('address =', ip)
  if (actions !== null) {
    values.push(actions)
    conditions.push(`action = any($${values.length})`)
  }
  if (actorId !== null) add('actor_id =', actorId)
  if (applicationId !== null) add('application_id =', applicationId)
  if (since !== null) {
    add('happened_at >=', since)
    conditions.push(`id >= (select e.id from event e where happened_at >= $${values.length} and ${isIdentityEvent}
                              order by happened_at limit 1) - ${concurrentIds}`)
  }
  if (until !== null) {
    add('happened_at <', until)
    conditions.push(`id <= (select e.id from event e where happened_at < $${values.length} and ${isIdentityEvent}
                              order by happened_at desc limit 1) + ${concurrentIds}`)
  }
  const { rows } = await db.query<IdentityEvent>(
    `select ${identityColumns}
       from (select e.* from event e where ${conditions.join(' and ')} order by id desc limit $2) e
       ${eventJoins}
      order by e.id desc`,
    values,
  )
  return rows
}

/** Finds an event. Null when it is unknown, or was removed because of its age. */
export async function findIdentityEvent(db: Queryable, id: string): Promise<IdentityEvent | null> {
  const { rows } = await db.query<IdentityEvent>(
    `select ${identityColumns} from event e ${eventJoins} where e.id = $1 and ${isIdentityEvent}`,
    [id],
  )
  return rows[0] ?? null
}

/**
 * Writes at most `limit` events that are not logged yet to the log. Returns their ids. Because of the limit in the
 * statement, PostgreSQL uses the index of the events, also without statistics. Otherwise it would read the whole table.
 */
export async function logIdentityEvents(tx: pg.PoolClient, log: Log, limit: number): Promise<string[]> {
  const { rows } = await tx.query<IdentityEvent>(
    `with taken as (
       delete from unlogged_identity_event
        where event_id in (select event_id from unlogged_identity_event order by event_id limit $1 for update skip locked)
       returning event_id
     )
     select ${identityColumns}
       from taken t
      cross join lateral (select e.* from event e where e.id = t.event_id and ${isIdentityEvent} limit 1) e
       ${eventJoins}
      order by e.id`,
    [limit],
  )
  for (const { action, ...event } of rows) log.info(describeForLog(action, event), 'identity event')
  return rows.map(({ id }) => id)
}

function describeForLog(action: string, event: Omit<IdentityEvent, 'action'>) {
  return { event: `identity.${action}`, ...describeEvent({ action, ...event }) }
}

/** Returns an event in the format of commands, exports and the log. */
export function describeEvent(event: IdentityEvent): Record<string, unknown> {
  return {
    id: Number(event.id),
    happened_at: event.happenedAt.toISOString(),
    action: event.action,
    account: event.username,
    application: event.application,
    client_id: event.clientId,
    actor: event.actor,
    via: event.via,
    ip: event.ip,
    user_agent: event.userAgent,
    request_id: event.requestId,
    details: event.details,
  }
}

import type pg from 'pg'
import { type Queryable, transaction } from '../../src/database/database.ts'

/** An event as the database has it. */
export interface StoredEvent {
  id: string
  action: string
  accountId: string | null
  applicationId: string | null
  groupId: string | null
  repositoryId: string | null
  package: string | null
  version: string | null
  actorId: string | null
  tokenKind: string | null
  tokenId: string | null
  via: string | null
  ip: string | null
  requestId: string | null
  happenedAt: Date
  details: Record<string, unknown>
}

const columnOf: Record<keyof StoredEvent, string> = {
  id: 'id',
  action: 'action',
  accountId: 'account_id',
  applicationId: 'application_id',
  groupId: 'group_id',
  repositoryId: 'repository_id',
  package: 'package',
  version: 'version',
  actorId: 'actor_id',
  tokenKind: 'token_kind',
  tokenId: 'token_id',
  via: 'via',
  ip: 'address',
  requestId: 'request_id',
  happenedAt: 'happened_at',
  details: 'details',
}

/** What events must have: these values, one of the values of an array, and at least these details. */
export type EventFilter = { [Key in keyof StoredEvent]?: StoredEvent[Key] | StoredEvent[Key][] }

/** Lists the events of a filter in their order, each with these columns only. */
export async function eventsOf<Column extends keyof StoredEvent>(
  db: Queryable,
  filter: EventFilter,
  columns: readonly Column[],
): Promise<Pick<StoredEvent, Column>[]> {
  const { condition, values } = conditionOf(filter)
  const selected = columns.map(
    (column) => `${column === 'ip' ? 'host(address)' : columnOf[column]} as "${column}"`,
  )
  const { rows } = await db.query<Pick<StoredEvent, Column>>(
    `select ${selected.join(', ')} from event where ${condition} order by event.id`,
    values,
  )
  return rows
}

/** Counts the events of a filter. */
export async function countEvents(db: Queryable, filter: EventFilter): Promise<number> {
  return (await eventsOf(db, filter, ['id'])).length
}

function conditionOf(filter: EventFilter): { condition: string; values: unknown[] } {
  const values: unknown[] = []
  const conditions = Object.entries(filter).map(([key, value]) => {
    const column = columnOf[key as keyof StoredEvent]
    values.push(key === 'details' ? JSON.stringify(value) : value)
    if (key === 'details') return `details @> $${values.length}`
    return Array.isArray(value) ? `${column} = any($${values.length})` : `${column} = $${values.length}`
  })
  return { condition: conditions.join(' and ') || 'true', values }
}

/** Returns the id of the newest event. */
export async function lastEventId(db: Queryable): Promise<bigint> {
  const { rows } = await db.query<{ last: string }>('select coalesce(max(id), 0) as last from event')
  return BigInt(rows[0]?.last ?? 0)
}

/** Tries to change the events of a filter. The database allows it only to the sweep, and only a little. */
export async function changeEvents(
  db: Queryable,
  filter: EventFilter,
  changes: Partial<StoredEvent>,
): Promise<void> {
  const { condition, values } = conditionOf(filter)
  const columns = Object.keys(changes).map(
    (key, i) => `${columnOf[key as keyof StoredEvent]} = $${values.length + i + 1}`,
  )
  await db.query(`update event set ${columns.join(', ')} where ${condition}`, [
    ...values,
    ...Object.values(changes),
  ])
}

/** Runs `work` in a transaction that says it is the sweep of events. */
export async function asEventSweep<T>(db: pg.Pool, work: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  return transaction(db, async (tx) => {
    await tx.query(`set local svc.event_sweep = 'on'`)
    return work(tx)
  })
}

/** Lets the events of a filter have happened at a time. */
export async function dateEvents(db: Queryable, filter: EventFilter, happenedAt: Date): Promise<void> {
  await db.query('alter table event disable trigger user')
  await changeEvents(db, filter, { happenedAt })
  await db.query('alter table event enable trigger user')
}

/** Inserts many events of sign-ins. */
export async function addSignInEvents(db: Queryable, count: number): Promise<void> {
  await db.query(
    `select insert_events(jsonb_agg(jsonb_build_object('action', 'sign-in'))) from generate_series(1, $1::int)`,
    [count],
  )
}

/**
 * Inserts so many events of sign-ins that `addSignInEvents` would take seconds, a thousand of each second until now. They do
 * not wait for the log.
 */
export async function addManySignIns(db: Queryable, count: number): Promise<void> {
  await db.query(
    `insert into event (action, happened_at, details)
     select 'sign-in', now() - (($1::int - i) / 1000) * interval '1 second', '{}' from generate_series(1, $1::int) i`,
    [count],
  )
}

/** Lets events be counted in the hour of now, whatever the time is: a test may begin before a full hour, and end after it. */
export async function holdHour(db: Queryable): Promise<void> {
  await db.query(
    `create function hold_hour() returns trigger language plpgsql as
     $$ begin new.hour := tg_argv[0]; return new; end $$`,
  )
  await db.query(
    `do $$ begin
       execute format('create trigger hold_hour before insert on counted_event for each row execute function hold_hour(%L)',
                      date_trunc('hour', now(), 'UTC'));
     end $$`,
  )
}

/** Lets the counters of events be of this many hours before. */
export async function ageCountedEvents(db: Queryable, hours: number): Promise<void> {
  await db.query('update counted_event set hour = hour - make_interval(hours => $1)', [hours])
}

/** Inserts an identity event without an actor, as a trigger does. */
export async function noteIdentityEvent(
  db: Queryable,
  action: string,
  { id }: { id: string },
  details: object = {},
  application: { id: string } | null = null,
): Promise<void> {
  await db.query('select note_identity_event($1, $2, $3, $4)', [
    action,
    id,
    application?.id ?? null,
    JSON.stringify(details),
  ])
}

/** Lists the ids of the events that are about groups and repositories. */
export async function listRegistryEventIds(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    'select id from event where repository_id is not null or group_id is not null order by id',
  )
  return rows.map(({ id }) => id)
}

/** Inserts publications that are this many days old. Each package has the number of days in its name. */
export async function addOldPublications(
  db: Queryable,
  repository: { id: string },
  days: readonly number[],
): Promise<void> {
  await db.query(
    `insert into event (repository_id, action, address, happened_at, package, details)
     select $1, 'publish', '192.0.2.1', now() - days * interval '1 day', 'acme/' || days, '{"size": 1}'
       from unnest($2::int[]) as days`,
    [repository.id, days],
  )
}

import type { Queryable } from '../../src/database/database.ts'

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
  ip: 'host(address)',
  requestId: 'request_id',
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
  const selected = columns.map((column) => `${columnOf[column]} as "${column}"`)
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

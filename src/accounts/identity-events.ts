import type { FastifyBaseLogger } from 'fastify'
import type pg from 'pg'
import type { EventSettings } from '../config.ts'
import { type Actor, type ListPart, type Queryable, sweepOf } from '../database/database.ts'
import { networkOf } from '../domain/client-ip.ts'
import { readRowId } from '../domain/row-id.ts'
import type { Job } from '../jobs/job.ts'
import { hasLogin, normalizeLogin } from './accounts.ts'

/** The actions on identities and applications. Triggers and the functions below write them as events. */
export const identityActions = [
  'sign-in',
  'sign-in-failed',
  'sign-in-locked',
  'sign-out',
  'session-ended',
  'password-changed',
  'reset-link-created',
  'password-reset-requested',
  'second-factor-added',
  'second-factor-removed',
  'second-factor-failed',
  'recovery-codes-created',
  'recovery-code-used',
  'email-changed',
  'email-verified',
  'account-created',
  'account-renamed',
  'account-disabled',
  'account-enabled',
  'account-deleted',
  'invitation-created',
  'invitation-accepted',
  'invitation-withdrawn',
  'admin-granted',
  'admin-removed',
  'identity-linked',
  'identity-unlinked',
  'groups-changed',
  'token-created',
  'token-first-used',
  'token-revoked',
  'deploy-token-created',
  'deploy-token-first-used',
  'deploy-token-revoked',
  'consent-given',
  'consent-narrowed',
  'authorization-withdrawn',
  'code-replayed',
  'refresh-token-reused',
  'application-registered',
  'application-pending',
  'application-approved',
  'application-suspended',
  'application-declined',
  'application-changed',
  'application-secret-rotated',
] as const

/** The actions of an application's history: who registered, reviewed and changed it. */
export const applicationActions = identityActions.filter((action) => action.startsWith('application-'))

export type IdentityAction = (typeof identityActions)[number]

/** A stored identity event. */
export interface IdentityEvent {
  id: string
  happenedAt: Date
  /** One of `identityActions`. A newer release may have more. */
  action: string
  /** The account that it is about. Null for an application, or for a sign-in with an unknown name. */
  username: string | null
  /** The application that it is about. */
  application: string | null
  clientId: string | null
  /** The account that acted. Null for a command, an application, or an unknown person. */
  actor: string | null
  via: Actor['via'] | null
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

const eventColumns = `e.id, e.happened_at as "happenedAt", e.action, ${nameOf('e.account_id', 'u.username')} as username,
            c.name as application, c.client_id as "clientId", ${nameOf('e.actor_id', 'a.username')} as actor, e.via,
            host(e.address) as ip, e.user_agent as "userAgent", e.request_id as "requestId", e.details`

const eventJoins = `left join account u on u.id = e.account_id
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
  const conditions = ['($1::bigint is null or id < $1)']
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
    conditions.push(`id >= (select id from identity_event where happened_at >= $${values.length}
                              order by happened_at limit 1) - ${concurrentIds}`)
  }
  if (until !== null) {
    add('happened_at <', until)
    conditions.push(`id <= (select id from identity_event where happened_at < $${values.length}
                              order by happened_at desc limit 1) + ${concurrentIds}`)
  }
  const { rows } = await db.query<IdentityEvent>(
    `select ${eventColumns}
       from (select * from identity_event where ${conditions.join(' and ')} order by id desc limit $2) e
       ${eventJoins}
      order by e.id desc`,
    values,
  )
  return rows
}

/** Finds an event. Null when it is unknown, or was removed because of its age. */
export async function findIdentityEvent(db: Queryable, id: string): Promise<IdentityEvent | null> {
  const { rows } = await db.query<IdentityEvent>(
    `select ${eventColumns} from identity_event e ${eventJoins} where e.id = $1`,
    [id],
  )
  return rows[0] ?? null
}

/** SQL that finds the account with a username or email, which is the first parameter of the statement. */
const accountOfLogin = `(select id from account where ${hasLogin} order by username = $1 desc limit 1)`

/** The actions that somebody without a session can repeat. The trigger function refuse_event_change has them too. */
type CountedAction = 'sign-in-failed' | 'sign-in-locked' | 'second-factor-failed' | 'password-reset-requested'

/**
 * Counts a failed or locked sign-in with this username or email: see `countEvent`. An unknown name is not stored, because
 * it may be a mistyped password: these have one event for each network and hour together.
 */
export async function countRefusedSignIn(
  db: Queryable,
  actor: Actor,
  action: Extract<CountedAction, 'sign-in-failed' | 'sign-in-locked'>,
  login: string,
  network: string,
): Promise<void> {
  await db.query(
    `select note_counted_event(the_action => $2, the_account_id => ${accountOfLogin}, the_network => $3, the_kind => '',
                               actor => $4)`,
    [normalizeLogin(login), action, network, actor],
  )
}

/**
 * Counts an event of an account. All with the same action and `kind` from one network (see `networkOf`) in an hour have one
 * event, with the number of `attempts` in its details.
 */
export async function countEvent(
  db: Queryable,
  actor: Actor,
  { action, accountId, kind = '' }: { action: CountedAction; accountId: string; kind?: string },
): Promise<void> {
  await db.query(
    'select note_counted_event(the_action => $1, the_account_id => $2, the_network => $3, the_kind => $4, actor => $5)',
    [action, accountId, networkOf(actor.ip ?? undefined), kind, actor],
  )
}

/** Deletes at most `limit` counts whose hour has ended. Their events stay. Returns how many. */
export const deleteFormerCounts = sweepOf(
  'counted_event',
  'action, account_id, network, kind, hour',
  `hour < now() - interval '2 hours'`,
)

/**
 * Writes at most `limit` events that are not logged yet to the log. Returns their ids. Because of the limit in the
 * statement, PostgreSQL uses the index of the events, also without statistics. Otherwise it would read the whole table.
 */
export async function logIdentityEvents(
  tx: pg.PoolClient,
  log: FastifyBaseLogger,
  limit: number,
): Promise<string[]> {
  const { rows } = await tx.query<IdentityEvent>(
    `with taken as (
       delete from unlogged_identity_event
        where event_id in (select event_id from unlogged_identity_event order by event_id limit $1 for update skip locked)
       returning event_id
     )
     select ${eventColumns}
       from taken t
      cross join lateral (select * from identity_event where id = t.event_id limit 1) e
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

/**
 * Erases client IPs of old events, and removes older ones. Changes at most `limit` of each.
 */
export async function sweepIdentityEvents(
  db: Queryable,
  { retentionDays, ipDays }: EventSettings,
  limit: number,
): Promise<number> {
  const { rows } = await db.query<{ swept: number }>(
    'select sweep_identity_events(retention_days => $1, ip_days => $2, max_count => $3) as swept',
    [retentionDays, ipDays, limit],
  )
  return rows[0]?.swept ?? 0
}

const rowsPerStatement = 2_000

/** Erases client IPs of old identity events, and removes old events (EVENT_IP_DAYS, EVENT_RETENTION_DAYS). */
export const sweepIdentityEventsJob: Job = {
  name: 'sweep-identity-events',
  everySeconds: 3600,
  async run({ config, db }, _data, signal) {
    while ((await sweepIdentityEvents(db, config.events, rowsPerStatement)) > 0) signal.throwIfAborted()
  },
}

import type pg from 'pg'
import { type Queryable, transaction } from '../database/database.ts'
import { isTooSlow } from '../database/errors.ts'
import type { ListPart } from '../domain/paging.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { isIdentityAction } from './actions.ts'
import { type Event, eventColumns, eventJoins, isIdentityEvent, isRegistryEvent } from './event.ts'

/** How something was done. `svc`: nobody did it, or the operator before svc stored this. */
export const means = [
  'browser',
  'personal-token',
  'deploy-token',
  'publisher-token',
  'source',
  'application',
  'command',
  'svc',
] as const
export type Means = (typeof means)[number]

/** An event of a list. */
export interface ListedEvent extends Event {
  /** The list continues after this key. */
  key: string
}

/** Which events are listed. Missing and null members do not limit the list. */
export interface AuditFilter {
  /** The group in whose activity they are. */
  groupId?: string | null
  /** The path that their repository has, or had when it was deleted. */
  repositoryPath?: string | null
  packageName?: string | null
  /** The account that they are about, that acted, or whose role was changed. The id is null for an unknown account. */
  account?: { id: string | null; username: string } | null
  /** The account that they are about. */
  subjectId?: string | null
  /** The account that acted. */
  actorId?: string | null
  applicationId?: string | null
  actions?: readonly string[] | null
  means?: Means | null
  ip?: string | null
  /** Only events from this time on. */
  since?: Date | null
  /** Only events before this time. */
  until?: Date | null
  /** True to list only events of groups and repositories. */
  leavesOutIdentities?: boolean
}

const conditionOfMeans: Record<Means, string> = {
  browser: `(e.via = 'browser' or (e.via is null and e.token_kind is null and e.actor_id is not null))`,
  'personal-token': `e.token_kind = 'personal'`,
  'deploy-token': `e.token_kind = 'deploy'`,
  'publisher-token': `e.token_kind = 'publisher'`,
  source: `e.token_kind = 'source'`,
  application: `(e.token_kind = 'access' or e.via = 'application')`,
  command: `e.via = 'command'`,
  svc: '(e.via is null and e.token_kind is null and e.actor_id is null)',
}

/** Returns how an event was made. The conditions of `listEvents` have the same rule. */
export function meansOf({ via, tokenKind, actor }: Pick<Event, 'via' | 'tokenKind' | 'actor'>): Means {
  if (tokenKind === 'access' || via === 'application') return 'application'
  if (tokenKind === 'source') return 'source'
  if (tokenKind !== null) return `${tokenKind}-token`
  if (via === 'browser' || via === 'command') return via
  return actor === null ? 'svc' : 'browser'
}

/**
 * The identity events of deploy tokens. Each has an event of its group beside it, which lists show instead, except those of
 * the events about one account.
 */
const repeatedActions = `('deploy-token-created', 'deploy-token-revoked')`

/**
 * Lists events of all kinds, the latest first. `after` is the key of one of them. `readerId` is the account that reads, for
 * the names of its own tokens. It orders by time, because the ids of former identity events and those of others
 * overlap. Throws errcode 4 when it takes too long.
 */
export async function listEvents(
  db: Queryable,
  filter: AuditFilter,
  { after, limit }: ListPart,
  readerId: string | null = null,
): Promise<ListedEvent[]> {
  const values: unknown[] = [readerId, limit]
  const add = (value: unknown) => `$${values.push(value)}`
  // Only the given conditions are in the statement, so that an index can serve each of them.
  const conditions = [...conditionsOf(filter, add)]
  const [, micros, id] = /^(\d{1,17})-(\d{1,18})$/.exec(after ?? '') ?? []
  if (micros !== undefined) {
    const moment = `timestamptz 'epoch' + ${add(micros)}::bigint * interval '1 microsecond'`
    conditions.push(`(e.happened_at, e.id) < (${moment}, ${add(id)}::bigint)`)
  }
  const listing = db.query<ListedEvent>(
    `select ${eventColumns({ reader: '$1::bigint' })},
            (extract(epoch from e.happened_at) * 1000000)::bigint || '-' || e.id as key
       from (select e.* from event e where ${conditions.join(' and ') || 'true'}
              order by e.happened_at desc, e.id desc limit $2) e
       ${eventJoins}
      order by e.happened_at desc, e.id desc`,
    values,
  )
  return (await listing.catch(explainTooSlow)).rows
}

/** A count may take this long. Without it, a page still shows the events. */
const countMilliseconds = 1000

/** Counts the events that a filter finds, up to `most`. Null when that takes longer than a second. */
export async function countEvents(db: pg.Pool, filter: AuditFilter, most: number): Promise<number | null> {
  const values: unknown[] = [most]
  const conditions = [...conditionsOf(filter, (value) => `$${values.push(value)}`)]
  try {
    return await transaction(db, async (tx) => {
      await tx.query(`set local statement_timeout = ${countMilliseconds}`)
      const { rows } = await tx.query<{ count: number }>(
        `select count(*)::int as count
           from (select from event e where ${conditions.join(' and ') || 'true'} limit $1) found`,
        values,
      )
      return rows[0]?.count ?? 0
    })
  } catch (error) {
    if (isTooSlow(error)) return null
    throw error
  }
}

/** Not every combination of conditions has an index. The same request would take as long again. */
function explainTooSlow(error: unknown): never {
  if (!isTooSlow(error)) throw error
  const errmsg = 'this takes too long: narrow the filter, such as to a shorter time'
  throw new Refusal(errcode.deadlineExceeded, errmsg, { status: 400, cause: error })
}

function* conditionsOf(filter: AuditFilter, add: (value: unknown) => string): Generator<string> {
  const {
    groupId,
    repositoryPath,
    packageName,
    account,
    subjectId,
    actorId,
    applicationId,
    actions,
    ip,
    since,
    until,
  } = filter
  if (groupId) yield `e.in_group_id = ${add(groupId)}`
  if (repositoryPath) {
    const path = add(repositoryPath)
    yield `e.repository_id = any (array(
      select r.id from repository r join repository_group g on g.id = r.group_id
       where g.name = split_part(${path}, '/', 1) and r.name = split_part(${path}, '/', 2)
       union select repository_id from event where action = 'delete-repository' and details ->> 'path' = ${path}))`
  }
  if (packageName) yield `e.package = ${add(packageName)}`
  if (account) {
    const id = add(account.id)
    yield `(e.account_id = ${id}::bigint or e.actor_id = ${id}::bigint
            or (e.details ? 'username' and ${isRegistryEvent} and e.details ->> 'username' = ${add(account.username)}))`
  }
  if (subjectId) yield `e.account_id = ${add(subjectId)}`
  if (actorId) yield `e.actor_id = ${add(actorId)}`
  if (applicationId) yield `e.application_id = ${add(applicationId)}`
  if (actions) {
    yield `e.action = any (${add(actions)})`
    if (actions.every(isIdentityAction)) yield isIdentityEvent
  } else if (!subjectId) yield `e.action not in ${repeatedActions}`
  if (filter.leavesOutIdentities) yield isRegistryEvent
  if (filter.means) yield conditionOfMeans[filter.means]
  if (ip) yield `e.address = ${add(ip)}`
  if (since) yield `e.happened_at >= ${add(since)}`
  if (until) yield `e.happened_at < ${add(until)}`
}

/**
 * Lists the events of a group and its repositories for the admins of the group, like `listEvents`. They do not see the
 * email addresses of invitations and, in the events of accounts, no client IPs: other pages do not show them either.
 */
export async function listGroupEvents(
  db: Queryable,
  groupId: string,
  filter: AuditFilter,
  part: ListPart,
  readerId: string | null,
): Promise<ListedEvent[]> {
  const events = await listEvents(db, { ...filter, groupId }, part, readerId)
  return events.map(({ details: { email: _email, ...details }, ...event }) => ({
    ...event,
    details,
    ip: isIdentityAction(event.action) ? null : event.ip,
    userAgent: null,
    requestId: null,
  }))
}

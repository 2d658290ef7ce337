import type { Queryable } from '../database/database.ts'
import { bareIp } from '../domain/client-ip.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { UsedToken } from '../jobs/last-use.ts'
import type { RegistryAction } from './actions.ts'

/**
 * The author of a change: the account, the token and the client IP. The token is null in a browser and on the command
 * line.
 */
export interface Author {
  accountId: string | null
  token: UsedToken | null
  ip: string | null
  /** The hash of the id of the session in a browser. */
  session?: SecretHash
}

/** The author of changes on the command line, where no account signs in. */
export const commandLine: Author = { accountId: null, token: null, ip: null }

/** An event to insert. */
export interface NewEvent {
  /** Null for an event of a whole group. */
  repositoryId: string | null
  /** Set only when `repositoryId` is null. */
  groupId?: string
  /** Null for an event of the repository itself. */
  packageName: string | null
  /** Null for an event of the whole package. */
  version: string | null
  action: RegistryAction
  details?: Record<string, unknown>
}

/** Inserts an event in the transaction of its change. Only `sweepEvents` (sweep-events.ts) changes or removes events. */
export async function insertEvent(db: Queryable, author: Author, event: NewEvent): Promise<void> {
  await insertEvents(db, author, [event])
}

/** Inserts events of one author in the transaction of their changes, in this order. */
export async function insertEvents(
  db: Queryable,
  { accountId, token, ip }: Author,
  events: readonly NewEvent[],
): Promise<void> {
  await db.query({
    name: 'insert-registry-events',
    text: `insert into registry_event
             (repository_id, package, version, action, account_id, token_kind, token_id, address, details, group_id)
           select e.repository_id, e.package, e.version, e.action, $1, $2, $3, $4, e.details, e.group_id
             from unnest((select $5::bigint[]), (select $6::text[]), (select $7::text[]), (select $8::text[]),
                         (select $9::jsonb[]), (select $10::bigint[]))
                    with ordinality as e (repository_id, package, version, action, details, group_id, place)
            order by e.place`,
    values: [
      accountId,
      token?.kind,
      token?.tokenId,
      bareIp(ip ?? undefined),
      events.map(({ repositoryId }) => repositoryId),
      events.map(({ packageName }) => packageName),
      events.map(({ version }) => version),
      events.map(({ action }) => action),
      events.map(({ details = {} }) => JSON.stringify(details)),
      events.map(({ groupId = null }) => groupId),
    ],
  })
}

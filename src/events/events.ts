import type { Actor, Queryable } from '../database/database.ts'
import { bareIp } from '../domain/client-ip.ts'
import type { SecretHash } from '../domain/secrets.ts'
import type { UsedToken } from '../jobs/last-use.ts'
import type { IdentityAction, RegistryAction } from './actions.ts'

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

/** An event to insert. Without a repository and a group it is an identity event. */
export interface NewEvent {
  action: IdentityAction | RegistryAction
  /** The account that an identity event is about. */
  accountId?: string
  /** Null for an event of a whole group. */
  repositoryId?: string | null
  /** Set only for an event of a whole group. */
  groupId?: string
  /** Null for an event of the repository itself. */
  packageName?: string | null
  /** Null for an event of the whole package. */
  version?: string | null
  details?: Record<string, unknown>
}

/** Inserts an event in the transaction of its change. */
export async function insertEvent(db: Queryable, by: Author | Actor, event: NewEvent): Promise<void> {
  await insertEvents(db, by, [event])
}

/**
 * Inserts events of one author in the transaction of their changes, in this order. Only `sweepEvents`, `countEvent` and the
 * deletion of an account change events.
 */
export async function insertEvents(
  db: Queryable,
  by: Author | Actor,
  events: readonly NewEvent[],
): Promise<void> {
  const { accountId, ip } = by
  const means = 'via' in by ? by : { token: by.token }
  await db.query({
    name: 'insert-events',
    text: 'select insert_events(the_events => $1, the_actor => $2)',
    values: [
      JSON.stringify(events.map(rowOf)),
      JSON.stringify({ ...means, accountId, ip: bareIp(ip ?? undefined) }),
    ],
  })
}

function rowOf({ action, accountId, repositoryId, groupId, packageName, version, details }: NewEvent) {
  return {
    action,
    account_id: accountId,
    repository_id: repositoryId,
    group_id: groupId,
    package: packageName,
    version,
    details,
  }
}

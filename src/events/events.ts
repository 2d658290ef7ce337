import type { Queryable } from '../database/database.ts'
import { describePrincipal, type Principal } from '../domain/principal.ts'
import type { IdentityAction, RegistryAction } from './actions.ts'

/** An event to insert. Without a repository and a group it is an identity event. */
export interface NewEvent {
  action: IdentityAction | RegistryAction
  /** The account that an identity event is about. */
  accountId?: string
  /** The application that an identity event is about. */
  applicationId?: string
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
export async function insertEvent(db: Queryable, by: Principal, event: NewEvent): Promise<void> {
  await insertEvents(db, by, [event])
}

/**
 * Inserts events of what one principal did, in this order, in the transaction of the changes. Only `sweepEvents`,
 * `countEvent` and the deletion of an account change events.
 */
export async function insertEvents(db: Queryable, by: Principal, events: readonly NewEvent[]): Promise<void> {
  await db.query({
    name: 'insert-events',
    text: 'select insert_events(the_events => $1, the_actor => $2)',
    values: [JSON.stringify(events.map(rowOf)), JSON.stringify(describePrincipal(by))],
  })
}

function rowOf({
  action,
  accountId,
  applicationId,
  repositoryId,
  groupId,
  packageName,
  version,
  details,
}: NewEvent) {
  return {
    action,
    account_id: accountId,
    application_id: applicationId,
    repository_id: repositoryId,
    group_id: groupId,
    package: packageName,
    version,
    details,
  }
}

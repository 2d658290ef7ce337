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
  /** Null, as without it, for an event that is not of one repository. */
  repositoryId?: string | null
  /** Set only for an event of a whole group. */
  groupId?: string
  /** The group in whose activity the event is, if it is not that of its group or repository. */
  inGroupId?: string | null
  /** Null, as without it, for an event that is not of one package. */
  packageName?: string | null
  /** Null, as without it, for an event that is not of one version. */
  version?: string | null
  details?: Record<string, unknown>
}

/** Inserts an event in the transaction of its change. */
export async function insertEvent(db: Queryable, by: Principal, event: NewEvent): Promise<void> {
  await insertEvents(db, by, [event])
}

/**
 * Inserts events of what one principal did, in this order, in the transaction of the changes. There may be none. Only
 * `sweepEvents`, `countEvent` and the deletion of an account change events.
 */
export async function insertEvents(db: Queryable, by: Principal, events: readonly NewEvent[]): Promise<void> {
  if (events.length === 0) return
  await db.query({
    name: 'insert-events',
    text: 'select insert_events(the_events => $1, the_actor => $2)',
    values: [JSON.stringify(events.map(rowOf)), describePrincipal(by)],
  })
}

/**
 * Returns the details of an event about changed settings: the new values, and under `from` the former values of the same
 * names. Settings that are null, missing or unchanged are left out. Returns null when nothing changed.
 */
export function detailsOfChange<Settings extends object>(
  former: Settings,
  changes: { [Name in keyof Settings]?: Settings[Name] | null | undefined },
): Record<string, unknown> | null {
  const changed = (Object.keys(changes) as (keyof Settings & string)[]).filter((name) => {
    const value = changes[name] ?? null
    return value !== null && JSON.stringify(value) !== JSON.stringify(former[name])
  })
  if (changed.length === 0) return null
  const valuesOf = (settings: object) =>
    Object.fromEntries(changed.map((name) => [name, (settings as Record<string, unknown>)[name]]))
  return { ...valuesOf(changes), from: valuesOf(former) }
}

function rowOf({
  action,
  accountId,
  applicationId,
  repositoryId,
  groupId,
  inGroupId,
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
    in_group_id: inGroupId,
    package: packageName,
    version,
    details,
  }
}

import type pg from 'pg'
import { transaction } from '../database/database.ts'
import type { Role } from '../domain/permissions.ts'
import type { Principal } from '../domain/principal.ts'
import type { RegistryAction } from '../events/actions.ts'
import { insertEvent } from '../events/events.ts'
import {
  changeGroupRole,
  changeRepositoryRole,
  type GroupMemberOutcome,
  lockRole,
  removeGroupMember,
  removeRepositoryMember,
  setGroupMember,
  setRepositoryMember,
} from './members.ts'

/** A change of one account's role on a whole group, or on one repository. */
export interface MemberChange {
  place: { groupId: string } | { repositoryId: string }
  account: { id: string; username: string }
  /** `none` ends the membership. */
  role: Role | 'none'
  /** True to allow that a group loses its last admin. */
  force?: boolean
  /** True to change only the role of a member. An account without a role gets none. */
  mustBeMember?: boolean
}

/**
 * Grants, changes or removes a role, and writes the event if the role is another one. Returns `unchanged` when there was
 * no membership to remove or to change. Returns `last-admin` when the group would lose its last admin. `force` allows
 * this, because site administrators can still manage the group.
 */
export async function changeMember(
  db: pg.Pool,
  by: Principal,
  change: MemberChange,
): Promise<GroupMemberOutcome> {
  return transaction(db, async (tx) => {
    const former = await lockRole(tx, change.place, change.account.id)
    const outcome = await applyChange(tx, change)
    if (outcome === 'changed' && change.role !== former) await insertEvent(tx, by, eventOf(change, former))
    return outcome
  })
}

async function applyChange(
  tx: pg.PoolClient,
  { place, account, role, force = false, mustBeMember = false }: MemberChange,
): Promise<GroupMemberOutcome> {
  if (mustBeMember && role !== 'none') {
    if ('groupId' in place) return changeGroupRole(tx, place.groupId, account.id, role)
    return (await changeRepositoryRole(tx, place.repositoryId, account.id, role)) ? 'changed' : 'unchanged'
  }
  if ('groupId' in place) {
    return role === 'none'
      ? removeGroupMember(tx, place.groupId, account.id, { force })
      : setGroupMember(tx, place.groupId, account.id, role, { force })
  }
  if (role === 'none') {
    return (await removeRepositoryMember(tx, place.repositoryId, account.id)) ? 'changed' : 'unchanged'
  }
  await setRepositoryMember(tx, place.repositoryId, account.id, role)
  return 'changed'
}

function eventOf({ place, account: { username }, role }: MemberChange, former: Role | null) {
  const isGroup = 'groupId' in place
  const verb = role === 'none' ? 'remove' : 'set'
  const action: RegistryAction = isGroup ? `${verb}-group-member` : `${verb}-member`
  return {
    ...place,
    action,
    details: {
      username,
      ...(role !== 'none' && { role }),
      ...(former !== null && { from: { role: former } }),
    },
  }
}

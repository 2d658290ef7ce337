import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { ProviderSettings } from '../../domain/identity-provider.ts'
import { type Role, roles } from '../../domain/permissions.ts'
import type { Principal } from '../../domain/principal.ts'
import { insertEvent } from '../../events/events.ts'
import { removeGroupMember, setGroupMember } from '../../groups/members.ts'

/** A group that the configuration maps, or that the provider gave to the account. */
interface Membership {
  groupId: string
  name: string
  /** The account's role; null when it is no member. */
  role: Role | null
  /** The role that this provider gave. Null when a person or another provider added the membership. */
  givenRole: Role | null
}

/** The provider whose groups count. */
type GroupSource = Pick<ProviderSettings, 'name' | 'issuer' | 'groupMap'>

/**
 * Updates an account's memberships from its groups at a provider, and writes the events. Memberships that people
 * created or changed stay. The provider may remove the last admin of a group: site administrators can still manage it.
 * Call it in a transaction that has locked the account. Returns the names of mapped groups that do not exist here.
 */
export async function syncGroups(
  tx: pg.PoolClient,
  by: Principal,
  account: { id: string; username: string },
  source: GroupSource,
  providerGroups: readonly string[],
): Promise<string[]> {
  const wanted = wantedRoles(source, providerGroups)
  const memberships = await listMemberships(tx, account.id, source.issuer, [...wanted.keys()])
  // Most sign-ins change nothing, and lock nothing.
  if (memberships.every((membership) => !isToChange(membership, wanted)))
    return missingOf(wanted, memberships)
  await lockSyncedGroups(tx, source, [account.id])
  return syncLockedGroups(tx, by, account, source, providerGroups)
}

/**
 * Locks the groups in which a provider may change something for these accounts, in one order. Afterwards people change no
 * member of them, and nobody deletes one, until the transaction ends.
 */
export async function lockSyncedGroups(
  tx: pg.PoolClient,
  { issuer, groupMap }: GroupSource,
  accountIds: readonly string[],
): Promise<void> {
  await tx.query(
    `select from repository_group
      where name = any($1)
         or id in (select group_id from provider_membership where account_id = any($2) and issuer = $3)
      order by id for no key update`,
    [groupMap.map(({ group }) => group), accountIds, issuer],
  )
}

/** Does what `syncGroups` does, after `lockSyncedGroups`. */
export async function syncLockedGroups(
  tx: pg.PoolClient,
  by: Principal,
  account: { id: string; username: string },
  source: GroupSource,
  providerGroups: readonly string[],
): Promise<string[]> {
  const wanted = wantedRoles(source, providerGroups)
  const memberships = await listMemberships(tx, account.id, source.issuer, [...wanted.keys()])
  const added: string[] = []
  const removed: string[] = []
  // The provider decides, not the person who signs in.
  const byProvider = { ...by, accountId: null }
  for (const membership of memberships) {
    const { groupId, name, role, givenRole } = membership
    const wantedRole = wanted.get(name) ?? null
    if (!isToChange(membership, wanted)) continue
    if (givenRole !== null && givenRole !== role) {
      // A person has changed the role, so the provider no longer changes it.
      await deleteMark(tx, account.id, groupId)
      continue
    }
    const details = {
      username: account.username,
      provider: source.name,
      ...(role !== null && { from: { role } }),
    }
    if (wantedRole === null) {
      await removeGroupMember(tx, groupId, account.id, { force: true })
      await insertEvent(tx, byProvider, { action: 'remove-group-member', groupId, details })
      removed.push(name)
    } else {
      await setGroupMember(tx, groupId, account.id, wantedRole, { force: true })
      await putMark(tx, account.id, groupId, source.issuer, wantedRole)
      await insertEvent(tx, byProvider, {
        action: 'set-group-member',
        groupId,
        details: { ...details, role: wantedRole },
      })
      added.push(`${name}:${wantedRole}`)
    }
  }
  if (added.length + removed.length > 0) {
    await insertEvent(tx, by, {
      action: 'groups-changed',
      accountId: account.id,
      details: { provider: source.name, added, removed },
    })
  }
  return missingOf(wanted, memberships)
}

/** Returns whether the role or the mark of a membership changes. Those that people made stay. */
function isToChange({ name, role, givenRole }: Membership, wanted: ReadonlyMap<string, Role>): boolean {
  if (givenRole === null) return role === null && wanted.has(name)
  return givenRole !== role || wanted.get(name) !== role
}

function missingOf(wanted: ReadonlyMap<string, Role>, memberships: readonly Membership[]): string[] {
  const found = new Set(memberships.map(({ name }) => name))
  return [...wanted.keys()].filter((name) => !found.has(name))
}

/** Returns the strongest role that the map gives, for each group of svc. */
function wantedRoles({ groupMap }: GroupSource, providerGroups: readonly string[]): Map<string, Role> {
  const wanted = new Map<string, Role>()
  for (const { providerGroup, group, role } of groupMap) {
    if (!providerGroups.includes(providerGroup)) continue
    const other = wanted.get(group)
    if (other === undefined || roles.indexOf(role) > roles.indexOf(other)) wanted.set(group, role)
  }
  return wanted
}

async function listMemberships(
  db: Queryable,
  accountId: string,
  issuer: string,
  names: readonly string[],
): Promise<Membership[]> {
  const { rows } = await db.query<Membership>(
    `select g.id as "groupId", g.name, m.role, p.role as "givenRole"
       from repository_group g
       left join group_member m on m.group_id = g.id and m.account_id = $1
       left join provider_membership p on p.group_id = g.id and p.account_id = $1 and p.issuer = $2
      where g.name = any($3)
         or g.id in (select group_id from provider_membership where account_id = $1 and issuer = $2)
      order by g.name`,
    [accountId, issuer, names],
  )
  return rows
}

async function putMark(
  tx: pg.PoolClient,
  accountId: string,
  groupId: string,
  issuer: string,
  role: Role,
): Promise<void> {
  await tx.query(
    `insert into provider_membership (group_id, account_id, issuer, role) values ($1, $2, $3, $4)
     on conflict (group_id, account_id) do update set issuer = excluded.issuer, role = excluded.role`,
    [groupId, accountId, issuer, role],
  )
}

async function deleteMark(tx: pg.PoolClient, accountId: string, groupId: string): Promise<void> {
  await tx.query('delete from provider_membership where group_id = $1 and account_id = $2', [
    groupId,
    accountId,
  ])
}

import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { Role } from '../domain/permissions.ts'

/** A member of a repository. */
export interface Member {
  username: string
  displayName: string
  /** The stronger of `groupRole` and `repositoryRole`. */
  role: Role
  groupRole: Role | null
  repositoryRole: Role | null
}

/** The outcome of a change of a group's member. `last-admin`: refused, because the group would have no admin. */
export type GroupMemberOutcome = 'changed' | 'unchanged' | 'last-admin'

/**
 * Locks the group's row first, so that changes of its members run one after another. If two admins remove each other at
 * the same time, one stays. An admin whose account is disabled does not count.
 */
const lockedAdmins = `locked as materialized (
    select id from repository_group where id = $1 for no key update
  ), admins as materialized (
    select m.account_id, a.disabled_at is null as is_active
      from locked l
      join group_member m on m.group_id = l.id and m.role = 'admin'
      join account a on a.id = m.account_id
       for no key update of m
  )`
const anotherAdmin = 'exists (select from admins where account_id <> $2 and is_active)'

/**
 * Finds the role that an account has on a group or repository itself. Null for none. Its role there does not change until
 * the transaction ends.
 */
export async function lockRole(
  tx: pg.PoolClient,
  place: { groupId: string } | { repositoryId: string },
  accountId: string,
): Promise<Role | null> {
  const isGroup = 'groupId' in place
  const placeId = isGroup ? place.groupId : place.repositoryId
  // Every change of a group's members locks the group before a member. Another order would cause deadlocks.
  if (isGroup) await tx.query('select from repository_group where id = $1 for no key update', [placeId])
  const { rows } = await tx.query<{ role: Role }>(
    isGroup
      ? 'select role from group_member where group_id = $1 and account_id = $2'
      : 'select role from repository_member where repository_id = $1 and account_id = $2 for no key update',
    [placeId, accountId],
  )
  return rows[0]?.role ?? null
}

/**
 * Finds the role of an account in a repository: admin for a site administrator, else the role as a member. Null for none. What
 * makes a member's role weaker waits until the transaction ends, or it comes first.
 */
export async function lockRoleIn(
  tx: pg.PoolClient,
  repositoryId: string,
  accountId: string,
): Promise<Role | null> {
  const member = `account_id = $2 for share`
  await tx.query(`select from repository_member where repository_id = $1 and ${member}`, [
    repositoryId,
    accountId,
  ])
  await tx.query(
    `select from group_member where group_id = (select group_id from repository where id = $1) and ${member}`,
    [repositoryId, accountId],
  )
  // Only a statement that begins after the locks sees what has changed before.
  const { rows } = await tx.query<{ role: Role | null }>('select role_of($2, $1) as role', [
    repositoryId,
    accountId,
  ])
  return rows[0]?.role ?? null
}

/**
 * Makes the account a member of the group, or changes its role. Refuses to demote the group's last admin, unless
 * forced.
 */
export async function setGroupMember(
  db: Queryable,
  groupId: string,
  accountId: string,
  role: Role,
  { force = false } = {},
): Promise<GroupMemberOutcome> {
  const { rows } = await db.query<{ outcome: GroupMemberOutcome }>(
    `with ${lockedAdmins}, made as (
       insert into group_member (group_id, account_id, role)
       select l.id, $2, $3::member_role from locked l
       on conflict (group_id, account_id) do update set role = excluded.role
        where $4 or excluded.role = 'admin' or group_member.role <> 'admin' or ${anotherAdmin}
       returning role
     )
     select case when exists (select from made) then 'changed' else 'last-admin' end as outcome`,
    [groupId, accountId, role, force],
  )
  return rows[0]?.outcome ?? 'last-admin'
}

/**
 * Changes the role of an account that is a member of the group. `unchanged`: it is no member. Refuses to demote the
 * group's last admin.
 */
export async function changeGroupRole(
  db: Queryable,
  groupId: string,
  accountId: string,
  role: Role,
): Promise<GroupMemberOutcome> {
  const { rows } = await db.query<{ outcome: GroupMemberOutcome }>(
    `with ${lockedAdmins}, made as (
       update group_member m set role = $3::member_role
         from locked l
        where m.group_id = l.id and m.account_id = $2
          and ($3::member_role = 'admin' or m.role <> 'admin' or ${anotherAdmin})
       returning m.role
     )
     select case when exists (select from made) then 'changed'
                 when exists (select from group_member where group_id = $1 and account_id = $2) then 'last-admin'
                 else 'unchanged' end as outcome`,
    [groupId, accountId, role],
  )
  return rows[0]?.outcome ?? 'unchanged'
}

/**
 * Gives an account at least this role on a group. Returns false when the account already has this role or a stronger
 * one.
 */
export async function raiseGroupMember(
  db: Queryable,
  groupId: string,
  accountId: string,
  role: Role,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into group_member as m (group_id, account_id, role) values ($1, $2, $3)
     on conflict (group_id, account_id) do update set role = excluded.role where m.role < excluded.role`,
    [groupId, accountId, role],
  )
  return rowCount === 1
}

/** Removes an account from the group. Refuses to remove the group's last admin, unless forced. */
export async function removeGroupMember(
  db: Queryable,
  groupId: string,
  accountId: string,
  { force = false } = {},
): Promise<GroupMemberOutcome> {
  const { rows } = await db.query<{ outcome: GroupMemberOutcome }>(
    `with ${lockedAdmins}, removed as (
       delete from group_member m
        using locked l
        where m.group_id = l.id and m.account_id = $2
          and ($3 or m.role <> 'admin' or ${anotherAdmin})
       returning m.role
     )
     select case when exists (select from removed) then 'changed'
                 when exists (select from admins where account_id = $2) then 'last-admin'
                 else 'unchanged' end as outcome`,
    [groupId, accountId, force],
  )
  return rows[0]?.outcome ?? 'unchanged'
}

/** Makes the account a member of the repository, or changes its role there. */
export async function setRepositoryMember(
  db: Queryable,
  repositoryId: string,
  accountId: string,
  role: Role,
) {
  await db.query(
    `insert into repository_member (repository_id, account_id, role) values ($1, $2, $3)
     on conflict (repository_id, account_id) do update set role = excluded.role`,
    [repositoryId, accountId, role],
  )
}

/** Changes the role of an account that is a member of the repository. False when it is no member. */
export async function changeRepositoryRole(
  db: Queryable,
  repositoryId: string,
  accountId: string,
  role: Role,
): Promise<boolean> {
  const { rowCount } = await db.query(
    'update repository_member set role = $3 where repository_id = $1 and account_id = $2',
    [repositoryId, accountId, role],
  )
  return rowCount === 1
}

/** Removes an account from the repository, but not from its group. False when it was not a member. */
export async function removeRepositoryMember(
  db: Queryable,
  repositoryId: string,
  accountId: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    'delete from repository_member where repository_id = $1 and account_id = $2',
    [repositoryId, accountId],
  )
  return rowCount === 1
}

const memberColumns = `a.username, a.display_name as "displayName", greatest(g.role, m.role) as role,
  g.role as "groupRole", m.role as "repositoryRole"`
const memberTables = `repository r
  join account a on true
  left join group_member g on g.group_id = r.group_id and g.account_id = a.id
  left join repository_member m on m.repository_id = r.id and m.account_id = a.id`
const isMember = `a.id in (select account_id from group_member where group_id = r.group_id
                     union select account_id from repository_member where repository_id = r.id)`

/** Lists all accounts with a role on the repository or its group, by username. */
export async function listMembers(
  db: Queryable,
  repositoryId: string,
  { after, limit }: ListPart = { after: null, limit: 1000 },
): Promise<Member[]> {
  const { rows } = await db.query<Member>(
    `select ${memberColumns} from ${memberTables}
      where r.id = $1 and ${isMember} and a.username > $2
      order by a.username limit $3`,
    [repositoryId, after ?? '', limit],
  )
  return rows
}

/** Finds a member of the repository or its group. Null when the account has no role. */
export async function findMember(
  db: Queryable,
  repositoryId: string,
  username: string,
): Promise<Member | null> {
  const { rows } = await db.query<Member>(
    `select ${memberColumns} from ${memberTables}
      where r.id = $1 and a.username = $2 and (g.role is not null or m.role is not null)`,
    [repositoryId, username],
  )
  return rows[0] ?? null
}

/** A member of a whole group. */
export interface GroupMember {
  username: string
  displayName: string
  role: Role
  /** The name of the sign-in provider whose groups made the account a member. Null when a person did. */
  provider: string | null
}

const groupMemberColumns = `a.username, a.display_name as "displayName", m.role,
  (select i.provider
     from provider_membership p
     join account_identity i on i.account_id = p.account_id and i.issuer = p.issuer
    where p.group_id = m.group_id and p.account_id = m.account_id) as provider`

/** Lists the members of a group by username; `after` is a username. */
export async function listGroupMembers(
  db: Queryable,
  groupId: string,
  { after, limit }: ListPart,
): Promise<GroupMember[]> {
  const { rows } = await db.query<GroupMember>(
    `select ${groupMemberColumns}
       from group_member m join account a on a.id = m.account_id
      where m.group_id = $1 and a.username > $2
      order by a.username limit $3`,
    [groupId, after ?? '', limit],
  )
  return rows
}

/** Finds a member of a group. Null when the account has no role on the group itself. */
export async function findGroupMember(
  db: Queryable,
  groupId: string,
  username: string,
): Promise<GroupMember | null> {
  const { rows } = await db.query<GroupMember>(
    `select ${groupMemberColumns}
       from group_member m join account a on a.id = m.account_id
      where m.group_id = $1 and a.username = $2`,
    [groupId, username],
  )
  return rows[0] ?? null
}

/**
 * Lists the groups whose only enabled admin is this account. Locks them, so that their admins do not change until the
 * transaction ends.
 */
export async function listGroupsOnlyAdministeredBy(
  tx: pg.PoolClient,
  accountId: string,
): Promise<{ id: string; name: string }[]> {
  await tx.query(
    `select from repository_group
      where id in (select group_id from group_member where account_id = $1 and role = 'admin')
      order by id for no key update`,
    [accountId],
  )
  const { rows } = await tx.query<{ id: string; name: string }>(
    `select g.id, g.name
       from repository_group g join group_member m on m.group_id = g.id
      where m.account_id = $1 and m.role = 'admin'
        and not exists (select from group_member o join account a on a.id = o.account_id
                         where o.group_id = g.id and o.role = 'admin' and o.account_id <> $1
                           and a.disabled_at is null)
      order by g.name`,
    [accountId],
  )
  return rows
}

/** A group that requires a second factor, and members of it who have none. */
export interface GroupOfUnprotected {
  group: string
  members: number
  /** Whether they have no role there now. Otherwise a grace period runs. */
  isDue: boolean
}

/** Lists the groups of an admin in which members lack the second factor that the group requires, by name. */
export async function listGroupsOfUnprotected(
  db: Queryable,
  accountId: string,
  limit: number,
): Promise<GroupOfUnprotected[]> {
  const { rows } = await db.query<GroupOfUnprotected>(
    `select g.name as "group", lacking.count as members,
            is_factor_due(g.requires_second_factor, g.second_factor_from) as "isDue"
       from counted_group_member own
       join repository_group g on g.id = own.group_id and g.requires_second_factor
      cross join lateral (
        select count(*)::int from group_member m join account a on a.id = m.account_id and a.disabled_at is null
         where m.group_id = g.id and not has_second_factor(m.account_id)) as lacking (count)
      where own.account_id = $1 and own.role = 'admin' and lacking.count > 0
      order by g.name limit $2`,
    [accountId, limit],
  )
  return rows
}

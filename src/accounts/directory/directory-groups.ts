import type pg from 'pg'
import { type Queryable, transaction } from '../../database/database.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { readRowId } from '../../domain/row-id.ts'
import { lockSyncedGroups, syncLockedGroups } from '../single-sign-on/provider-groups.ts'
import { asId, type PeopleDirectory } from './directory-users.ts'

/** How many members one request adds and removes at most, because each of them is locked until all are changed. */
export const maxChangedMembers = 1000

/** A group as a directory describes it. */
export interface GroupOfDirectory {
  /** At most 256 characters. The group map names it. */
  displayName: string
  externalId: string | null
  /** The ids of its users. */
  members: string[]
}

/** A group of a directory. Its members are left out where nobody asked for them. */
export interface DirectoryGroup extends Omit<GroupOfDirectory, 'members'> {
  id: string
  createdAt: Date
  changedAt: Date
  members: { id: string; userName: string }[] | null
}

/** A condition of a list: the value of an attribute. */
export interface GroupCondition {
  attribute: 'id' | 'displayName' | 'externalId' | 'member'
  value: string
}

/** SQL: whether the group g fulfils the condition whose value is the parameter. */
const conditions: Record<GroupCondition['attribute'], (parameter: string) => string> = {
  id: (parameter) => `g.id = ${asId(parameter)}`,
  displayName: (parameter) => `lower(g.display_name) = lower(${parameter})`,
  externalId: (parameter) => `g.external_id = ${parameter}`,
  member: (parameter) =>
    `exists (select from directory_group_member m where m.group_id = g.id and m.account_id = ${asId(parameter)})`,
}

const columnsOf = (
  withMembers: boolean,
) => `g.id, g.display_name as "displayName", g.external_id as "externalId",
  g.created_at as "createdAt", g.changed_at as "changedAt",
  ${
    withMembers
      ? `coalesce((select json_agg(json_build_object('id', m.account_id::text, 'userName', d.user_name) order by m.account_id)
                     from directory_group_member m join directory_user d on d.account_id = m.account_id
                    where m.group_id = g.id), '[]')`
      : 'null'
  } as members`

/** Which groups of a directory a list contains. */
interface GroupList {
  where?: readonly GroupCondition[]
  offset?: number
  limit: number
  withMembers: boolean
}

/** Lists groups of a directory by id, from an offset on, and counts all that fulfil the conditions. */
export async function listDirectoryGroups(
  db: Queryable,
  { issuer }: Pick<PeopleDirectory, 'issuer'>,
  { where = [], offset = 0, limit, withMembers }: GroupList,
): Promise<{ total: number; groups: DirectoryGroup[] }> {
  const isListed = ['g.issuer = $1']
    .concat(where.map(({ attribute }, at) => conditions[attribute](`$${at + 2}`)))
    .join(' and ')
  const values = [issuer, ...where.map(({ value }) => value)]
  const counted = await db.query<{ total: number }>(
    `select count(*)::int as total from directory_group g where ${isListed}`,
    values,
  )
  const { rows } = await db.query<DirectoryGroup>(
    `select ${columnsOf(withMembers)} from directory_group g where ${isListed}
      order by g.id offset $${values.length + 1} limit $${values.length + 2}`,
    [...values, offset, limit],
  )
  return { total: counted.rows[0]?.total ?? 0, groups: rows }
}

/** Finds a group of a directory. Throws errcode 5 when there is none. */
export async function findDirectoryGroup(
  db: Queryable,
  { issuer }: Pick<PeopleDirectory, 'issuer'>,
  id: string,
  withMembers: boolean,
): Promise<DirectoryGroup> {
  const { rows } = await db.query<DirectoryGroup>(
    `select ${columnsOf(withMembers)} from directory_group g where g.issuer = $1 and g.id = ${asId('$2')}`,
    [issuer, id],
  )
  if (!rows[0]) throw noGroup()
  return rows[0]
}

/**
 * Adds a group of a directory. Its members get the roles that the group map gives. Throws errcode 3 for an unknown member, and
 * the database's error when the name is taken.
 */
export async function addDirectoryGroup(
  db: pg.Pool,
  by: Principal,
  directory: PeopleDirectory,
  { displayName, externalId, members }: GroupOfDirectory,
): Promise<DirectoryGroup> {
  return transaction(
    db,
    async (tx) => {
      const { rows } = await tx.query<{ id: string }>(
        'insert into directory_group (issuer, display_name, external_id) values ($1, $2, $3) returning id',
        [directory.issuer, displayName, externalId],
      )
      const { id } = rows[0] as { id: string }
      await setMembers(tx, by, directory, { id, former: [], members, hasNewName: false })
      return findDirectoryGroup(tx, directory, id, true)
    },
    by,
  )
}

/**
 * Changes a group of a directory. `change` returns what it becomes. Members who join or leave, and all members of a group with
 * a new name, get the roles that the group map gives. Throws errcode 5 when there is no such group, 3 for an unknown member,
 * and the database's error when the name is taken.
 */
export async function changeDirectoryGroup(
  db: pg.Pool,
  by: Principal,
  directory: PeopleDirectory,
  id: string,
  change: (current: GroupOfDirectory) => GroupOfDirectory,
): Promise<DirectoryGroup> {
  return transaction(
    db,
    async (tx) => {
      const current = await lockGroup(tx, directory, id)
      const next = change(current)
      await tx.query(
        'update directory_group set display_name = $2, external_id = $3, changed_at = now() where id = $1',
        [id, next.displayName, next.externalId],
      )
      const hasNewName = next.displayName !== current.displayName
      await setMembers(tx, by, directory, { id, former: current.members, members: next.members, hasNewName })
      return findDirectoryGroup(tx, directory, id, true)
    },
    by,
  )
}

/** Removes a group of a directory. Its members lose the roles that it gave. Throws errcode 5 when there is no such group. */
export async function removeDirectoryGroup(
  db: pg.Pool,
  by: Principal,
  directory: PeopleDirectory,
  id: string,
): Promise<void> {
  await transaction(
    db,
    async (tx) => {
      const { members } = await lockGroup(tx, directory, id)
      const accounts = await lockAccounts(tx, members)
      await tx.query('delete from directory_group where id = $1', [id])
      await syncMembers(tx, by, directory, accounts)
    },
    by,
  )
}

async function lockGroup(
  tx: pg.PoolClient,
  directory: PeopleDirectory,
  id: string,
): Promise<GroupOfDirectory & { members: string[] }> {
  await tx.query(`select from directory_group where id = ${asId('$1')} for no key update`, [id])
  const group = await findDirectoryGroup(tx, directory, id, true)
  return { ...group, members: (group.members ?? []).map((member) => member.id) }
}

/** Adds and removes members of a locked group, and gives them their roles. */
async function setMembers(
  tx: pg.PoolClient,
  by: Principal,
  directory: PeopleDirectory,
  group: { id: string; former: readonly string[]; members: readonly string[]; hasNewName: boolean },
): Promise<void> {
  const former = new Set(group.former)
  const members = new Set(group.members)
  const added = [...members].filter((id) => !former.has(id))
  const removed = [...former].filter((id) => !members.has(id))
  const accounts = await lockAccounts(tx, group.hasNewName ? [...former, ...added] : [...added, ...removed])
  const { rows } = await tx.query<{ id: string }>(
    `select account_id as id from directory_user
      where account_id = any($1) and issuer = $2 and removed_at is null`,
    [added.filter((id) => readRowId(id) !== null), directory.issuer],
  )
  const known = new Set(rows.map(({ id }) => id))
  const unknown = added.find((id) => !known.has(id))
  if (unknown !== undefined) {
    throw new Refusal(errcode.invalidArgument, `members: there is no user ${JSON.stringify(unknown)}`)
  }
  await tx.query('delete from directory_group_member where group_id = $1 and account_id = any($2)', [
    group.id,
    removed,
  ])
  await tx.query(
    'insert into directory_group_member (group_id, account_id) select $1, unnest($2::bigint[]) on conflict do nothing',
    [group.id, added],
  )
  await syncMembers(tx, by, directory, accounts)
}

/** An account whose memberships change. */
type Member = { id: string; username: string }

/**
 * Locks the accounts of members before anything of them changes. All requests lock in one order, and whoever removes a user
 * locks the account first, too.
 */
async function lockAccounts(tx: pg.PoolClient, ids: readonly string[]): Promise<Member[]> {
  const { rows } = await tx.query<Member>(
    'select id, username from account where id = any($1) order by id for no key update',
    [ids.filter((id) => readRowId(id) !== null)],
  )
  return rows
}

/** Gives locked users the roles of the groups in which they are now. Throws errcode 3 when they are too many for one request. */
async function syncMembers(
  tx: pg.PoolClient,
  by: Principal,
  directory: PeopleDirectory,
  members: readonly Member[],
): Promise<void> {
  if (directory.groupMap.length === 0) return
  if (members.length > maxChangedMembers) {
    throw new Refusal(
      errcode.invalidArgument,
      `members: one request changes at most ${maxChangedMembers} members. Send several requests`,
    )
  }
  await lockSyncedGroups(
    tx,
    directory,
    members.map(({ id }) => id),
  )
  for (const member of members) {
    const { rows } = await tx.query<{ name: string }>(
      `select g.display_name as name from directory_group_member m join directory_group g on g.id = m.group_id
        where m.account_id = $1`,
      [member.id],
    )
    const names = rows.map(({ name }) => name)
    await syncLockedGroups(tx, by, member, directory, names)
  }
}

function noGroup(): Refusal {
  return new Refusal(errcode.notFound, 'there is no such group')
}

import type { Queryable } from '../../src/database/database.ts'
import type { Role } from '../../src/domain/permissions.ts'
import type { Group } from '../../src/groups/groups.ts'

type Id = { id: string }

/** Finds a group by its name. */
export async function storedGroup(db: Queryable, name: string): Promise<Group | undefined> {
  const { rows } = await db.query<Group>('select id, name from repository_group where name = $1', [name])
  return rows[0]
}

/** Returns the roles of an account in groups, by the group's name. */
export async function groupRolesOf(db: Queryable, username: string): Promise<Record<string, Role>> {
  const { rows } = await db.query<{ name: string; role: Role }>(
    `select g.name, m.role from group_member m
       join repository_group g on g.id = m.group_id
       join account a on a.id = m.account_id
      where a.username = $1`,
    [username],
  )
  return Object.fromEntries(rows.map(({ name, role }) => [name, role]))
}

/** Lists the members of a group. */
export async function membersOf(db: Queryable, group: Id): Promise<{ accountId: string; role: Role }[]> {
  const { rows } = await db.query<{ accountId: string; role: Role }>(
    'select account_id as "accountId", role from group_member where group_id = $1 order by account_id',
    [group.id],
  )
  return rows
}

/** Makes an account a developer of all its groups, without the checks of the product. */
export async function becomeDeveloper(db: Queryable, account: Id): Promise<void> {
  const { rowCount } = await db.query(`update group_member set role = 'developer' where account_id = $1`, [
    account.id,
  ])
  if (rowCount === 0) throw new Error(`the account ${account.id} is a member of no group`)
}

/** Lets the members of a group need a second factor. */
export async function requireSecondFactor(db: Queryable, group: Id): Promise<void> {
  await db.query('update repository_group set requires_second_factor = true where id = $1', [group.id])
}

/** Adds this many repositories to the group of a repository, with the account as a guest. */
export async function addRepositories(db: Queryable, { id }: Id, count: number, guest: Id): Promise<void> {
  await db.query(
    `with made as (
       insert into repository (group_id, name) select group_id, 'repo' || i from repository, generate_series(1, $3::int) i
        where id = $1 returning id)
     insert into repository_member (repository_id, account_id, role) select id, $2, 'guest' from made`,
    [id, guest.id, count],
  )
}

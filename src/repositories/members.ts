import type { Queryable } from '../database/database.ts'
import type { Role } from '../domain/permissions.ts'
import type { ListPart } from './list-part.ts'

/** A member of a repository. */
export interface Member {
  username: string
  displayName: string
  /** The stronger of the two below. */
  role: Role
  groupRole: Role | null
  repositoryRole: Role | null
}

/** Makes the account a member of the group, or changes its role there. */
export async function setGroupMember(db: Queryable, groupId: string, accountId: string, role: Role) {
  await db.query(
    `insert into group_member (group_id, account_id, role) values ($1, $2, $3)
     on conflict (group_id, account_id) do update set role = excluded.role`,
    [groupId, accountId, role],
  )
}

/** Ends a membership of the group. False when there was none. */
export async function removeGroupMember(db: Queryable, groupId: string, accountId: string): Promise<boolean> {
  const { rowCount } = await db.query('delete from group_member where group_id = $1 and account_id = $2', [
    groupId,
    accountId,
  ])
  return rowCount === 1
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

/** Ends a membership of the repository; one of its group stays. False when there was none. */
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

/** Everyone with a role on the repository, through it or its group, by username. */
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

/** A member of the repository, through it or its group. Null when the account has no role. */
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

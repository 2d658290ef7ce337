import type { Queryable } from '../database/database.ts'

/** A group of repositories (DESIGN §1). */
export interface Group {
  id: string
  name: string
}

/** Null when there is no group of that name. */
export async function findGroup(db: Queryable, name: string): Promise<Group | null> {
  const { rows } = await db.query<Group>('select id, name from repository_group where name = $1', [name])
  return rows[0] ?? null
}

/**
 * Makes a group, and its owner its first admin. Throws with the constraint `group_name_is_taken`,
 * `group_name_is_well_formed` or `group_name_is_not_the_first_segment_of_another_url`.
 */
export async function insertGroup(db: Queryable, name: string, ownerId: string): Promise<Group> {
  const { rows } = await db.query<Group>(
    `with made as (insert into repository_group (name) values ($1) returning id, name),
          owned as (insert into group_member (group_id, account_id, role) select id, $2, 'admin' from made)
     select id, name from made`,
    [name, ownerId],
  )
  return rows[0] as Group
}

/** The groups the account is a member of, by name. */
export async function listGroupsOf(db: Queryable, accountId: string): Promise<Group[]> {
  const { rows } = await db.query<Group>(
    `select g.id, g.name
       from repository_group g join group_member m on m.group_id = g.id
      where m.account_id = $1
      order by g.name`,
    [accountId],
  )
  return rows
}

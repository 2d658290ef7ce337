import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { Role } from '../domain/permissions.ts'

/** A group of repositories (CONTRACT 1.2). */
export interface Group {
  id: string
  name: string
}

/** Finds a group by name. Null when there is none. */
export async function findGroup(db: Queryable, name: string): Promise<Group | null> {
  const { rows } = await db.query<Group>('select id, name from repository_group where name = $1', [name])
  return rows[0] ?? null
}

/** A group, with the role of the visitor of the group's page. */
export interface VisibleGroup extends Group {
  /**
   * Null when the visitor has no role on the group and only sees some of its repositories. A site administrator is
   * admin of every group.
   */
  role: Role | null
}

/**
 * Finds a group that the account may see. The account is a member of the group or of one of its repositories, or one of
 * its repositories is public. A null account is a visitor who is not signed in. Returns null otherwise, and takes as long
 * for a hidden group as for one that does not exist. Without `asSiteAdmin`, a site administrator is like any other
 * account: an application's token never acts as one.
 */
export async function findVisibleGroup(
  db: Queryable,
  name: string,
  accountId: string | null,
  { asSiteAdmin }: { asSiteAdmin: boolean } = { asSiteAdmin: true },
): Promise<VisibleGroup | null> {
  const { rows } = await db.query<VisibleGroup>({
    name: 'find-visible-group',
    // Materialized, so that a group that does not exist takes as long as a hidden one.
    text: `with found as materialized (
             select g.id, g.name, own.role,
                    own.role is not null
                    or exists (select from repository r
                                where r.group_id = coalesce(g.id, 0) and r.visibility = 'public')
                    or exists (select from repository r
                                where r.group_id = coalesce(g.id, 0) and r.id = any(reach.repository_ids)) as is_visible
               from (values (true)) as request (is_one)
               left join repository_group g on g.name = $1
              -- Read before the repositories, which a group that does not exist has none of.
              cross join (select array(select repository_id from counted_repository_member where account_id = $2)
                                   as repository_ids
                          offset 0) reach
              cross join lateral (
                select greatest((select 'admin'::member_role from account where id = $2 and is_admin and $3),
                                (select role from counted_group_member
                                  where group_id = coalesce(g.id, 0) and account_id = $2)) as role) own)
           select id, name, role from found where id is not null and is_visible`,
    values: [name, accountId, asSiteAdmin],
  })
  return rows[0] ?? null
}

/**
 * Creates a group. Its owner becomes its first admin. The creator is null for a command. Throws with the constraint
 * `group_name_is_taken`, `group_name_is_reserved`, `group_name_is_well_formed` or
 * `group_name_is_not_the_first_segment_of_another_url`.
 */
export async function insertGroup(
  db: Queryable,
  name: string,
  ownerId: string,
  { creatorId = null }: { creatorId?: string | null } = {},
): Promise<Group> {
  const { rows } = await db.query<Group>(
    `with made as (insert into repository_group (name, creator_id) values ($1, $3) returning id, name),
          owned as (insert into group_member (group_id, account_id, role) select id, $2, 'admin' from made)
     select id, name from made`,
    [name, ownerId, creatorId],
  )
  return rows[0] as Group
}

/** The settings of a group. */
export interface GroupSettings extends Group {
  createdAt: Date
  requiresSecondFactor: boolean
  /** When it begins to take the roles of members without one. Null when it does so already, or is not required. */
  secondFactorFrom: Date | null
}

/** Finds the settings of a group. Null when it was deleted. */
export async function findGroupSettings(db: Queryable, groupId: string): Promise<GroupSettings | null> {
  const { rows } = await db.query<GroupSettings>(
    `select id, name, created_at as "createdAt", requires_second_factor as "requiresSecondFactor",
            case when requires_second_factor and second_factor_from > now() then second_factor_from end as "secondFactorFrom"
       from repository_group where id = $1`,
    [groupId],
  )
  return rows[0] ?? null
}

/** A group with details for the operator. */
export interface ListedGroup extends Group {
  createdAt: Date
  repositories: number
  /** The usernames of its admins with enabled accounts. */
  admins: string[]
  requiresSecondFactor: boolean
}

/** Lists groups by name. `search` is a text in the name; an empty text finds all groups. `after` is a name. */
export async function listGroups(
  db: Queryable,
  { after, limit }: ListPart,
  search = '',
): Promise<ListedGroup[]> {
  const { rows } = await db.query<ListedGroup>(
    `select g.id, g.name, g.created_at as "createdAt",
            g.requires_second_factor as "requiresSecondFactor",
            (select count(*)::int from repository r where r.group_id = g.id) as repositories,
            array(select a.username from group_member m join account a on a.id = m.account_id
                   where m.group_id = g.id and m.role = 'admin' and a.disabled_at is null
                   order by 1 limit 100) as admins
       from repository_group g
      where g.name > $1 and strpos(g.name, lower($3)) > 0
      order by g.name limit $2`,
    [after ?? '', limit, search],
  )
  return rows
}

/** Counts groups, repositories and packages. */
export async function countGroups(
  db: Queryable,
): Promise<{ groups: number; repositories: number; packages: number }> {
  const { rows } = await db.query<{ groups: number; repositories: number; packages: number }>(
    `select (select count(*)::int from repository_group) as groups,
            (select count(*)::int from repository where group_id is not null) as repositories,
            (select count(*)::int from package) as packages`,
  )
  return rows[0] as { groups: number; repositories: number; packages: number }
}

/** Ends the reservation of a former name of a group, so that another group can get the name. */
export async function freeGroupName(tx: pg.PoolClient, name: string): Promise<void> {
  await tx.query('delete from reserved_group_name where name = $1', [name])
}

/**
 * Renames a group. Its former name leads to it and is reserved for it. False when it was deleted. Throws with the constraint of
 * a broken rule, such as `group_name_is_taken`.
 */
export async function renameGroup(tx: pg.PoolClient, id: string, newName: string): Promise<boolean> {
  const { rowCount } = await tx.query('update repository_group set name = $2 where id = $1', [id, newName])
  return rowCount === 1
}

/** Deletes a group. It must have no repositories. Its name stays reserved. False when it was deleted before. */
export async function purgeGroup(tx: pg.PoolClient, id: string): Promise<boolean> {
  const { rowCount } = await tx.query('delete from repository_group where id = $1', [id])
  return rowCount === 1
}

/**
 * Lists the groups whose name is the first segment of a URL that svc got after the group. They keep their pages, and
 * should get another name.
 */
export async function listGroupsInTheWay(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select name from repository_group
      where name in ('access', 'device', 'explore', 'hooks', 'status') order by name`,
  )
  return rows.map(({ name }) => name)
}

import type { Queryable } from '../../src/database/database.ts'
import type { Role, Visibility } from '../../src/domain/permissions.ts'
import type { Group } from '../../src/groups/groups.ts'
import { aGroup } from './actors.ts'

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

/** Changes whether a group requires a second factor, as a release does that knows no grace periods. */
export async function setFactorAsBefore(db: Queryable, group: Id, isRequired: boolean): Promise<void> {
  await db.query('update repository_group set requires_second_factor = $2 where id = $1', [
    group.id,
    isRequired,
  ])
}

/** Returns whether a group requires a second factor now. */
export async function isFactorDue(db: Queryable, group: Id): Promise<boolean> {
  const { rows } = await db.query<{ isDue: boolean }>(
    'select is_factor_due(requires_second_factor, second_factor_from) as "isDue" from repository_group where id = $1',
    [group.id],
  )
  return rows[0]?.isDue === true
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

/** Adds this many repositories to a group, from "repo-001" on. */
export async function fillGroup(db: Queryable, group: Id, count: number): Promise<void> {
  await db.query(
    `insert into repository (group_id, name)
     select $1, 'repo-' || to_char(n, 'FM000') from generate_series(1, $2::int) n`,
    [group.id, count],
  )
}

/** Changes who may see a repository, without an event. */
export async function setVisibility(db: Queryable, repository: Id, visibility: Visibility): Promise<void> {
  await db.query('update repository set visibility = $2 where id = $1', [repository.id, visibility])
}

/** Returns the path of a repository. */
export async function pathOf(db: Queryable, repository: Id): Promise<string | undefined> {
  const { rows } = await db.query<{ path: string }>(
    `select g.name || '/' || r.name as path from repository r join repository_group g on g.id = r.group_id
      where r.id = $1`,
    [repository.id],
  )
  return rows[0]?.path
}

/** Lists the paths of all repositories, or of those of groups, in the order of groups and names. */
export async function listPaths(db: Queryable, groups: readonly Id[] | null = null): Promise<string[]> {
  const { rows } = await db.query<{ path: string }>(
    `select g.name || '/' || r.name as path from repository r join repository_group g on g.id = r.group_id
      where $1::bigint[] is null or g.id = any($1) order by g.name, r.name`,
    [groups?.map(({ id }) => id) ?? null],
  )
  return rows.map(({ path }) => path)
}

/** Lets the deletion of a repository be this many days earlier. */
export async function ageDeletion(db: Queryable, repository: Id, days: number): Promise<void> {
  await db.query('update repository set deleted_at = deleted_at - make_interval(days => $2) where id = $1', [
    repository.id,
    days,
  ])
}

/** Lets a repository be deleted now. */
export async function markDeletedNow(db: Queryable, repository: Id): Promise<void> {
  await db.query('update repository set deleted_at = now() where id = $1', [repository.id])
}

/** Lets the reservations of former names of a group end this many days earlier. */
export async function ageReservation(db: Queryable, group: Id, days: number): Promise<void> {
  await db.query(
    `update reserved_group_name set reserved_until = reserved_until - make_interval(days => $2) where group_id = $1`,
    [group.id, days],
  )
}

/** Lists the names that are reserved for groups. */
export async function listReservedNames(db: Queryable, groups: readonly Id[]): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    'select name from reserved_group_name where group_id = any($1) order by name',
    [groups.map(({ id }) => id)],
  )
  return rows.map(({ name }) => name)
}

/** Lists the former names of a repository. */
export async function listAliases(db: Queryable, repository: Id): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    'select name from repository_alias where repository_id = $1 order by name',
    [repository.id],
  )
  return rows.map(({ name }) => name)
}

/** Lists the former names of repositories of a group that another repository of it has now. */
export async function listTakenAliases(db: Queryable, group: Id): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select name from repository_alias where group_id = $1
     intersect select name from repository where group_id = $1`,
    [group.id],
  )
  return rows.map(({ name }) => name)
}

/** Lets the claims of a group be made by hand. */
export async function markClaimedByHand(db: Queryable, group: Id): Promise<void> {
  await db.query('update vendor_claim set by_hand = true where group_id = $1', [group.id])
}

/** Returns the texts of the documents of the packages of a repository. */
export async function documentTexts(db: Queryable, repository: Id): Promise<string[]> {
  const { rows } = await db.query<{ text: string }>(
    `select convert_from(plain, 'UTF8') as text from package_document where repository_id = $1`,
    [repository.id],
  )
  return rows.map(({ text }) => text)
}

/** Counts the repositories that are not deleted. */
export async function countLiveRepositories(db: Queryable): Promise<number> {
  return (await db.query('select from repository where group_id is not null')).rowCount ?? 0
}

/** Makes a group with a name that an earlier release allowed, and this one does not. */
export async function anOlderGroup(db: Queryable, name: string): Promise<Group> {
  const trigger = 'group_name_is_not_reserved'
  await db.query(`alter table repository_group disable trigger ${trigger}`)
  const group = await aGroup(db, name)
  await db.query(`alter table repository_group enable trigger ${trigger}`)
  return group
}

/** Lets the grace period of a group end now. */
export async function endGrace(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query('update repository_group set second_factor_from = now() where id = $1', [id])
}

/** Moves the grace period of a group, and the mails about it, into the past. */
export async function moveGrace(db: Queryable, { id }: { id: string }, by: string): Promise<void> {
  await db.query(
    `update second_factor_notice
        set announced_at = announced_at - $2::interval, required_from = required_from - $2::interval
      where group_id = $1`,
    [id, by],
  )
  await db.query(
    'update repository_group set second_factor_from = second_factor_from - $2::interval where id = $1',
    [id, by],
  )
}

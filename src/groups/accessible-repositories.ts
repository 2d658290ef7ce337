import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { Role, TokenGrant } from '../domain/permissions.ts'
import type { Repository } from './repositories.ts'

/*
 * This file lists the repositories and groups of an account. The rule is the same as in domain/permissions.ts: the
 * account has a role on the repository, and the token's resource scope includes the repository. A test compares both
 * rules for every combination.
 */

/** The account or deploy token whose repositories are listed, and the limits of the token (CONTRACT 1.10). */
export interface RepositoryReader extends Pick<TokenGrant, 'resourceScope' | 'repositoryIds'> {
  /** Null for a visitor who is not signed in, and for a deploy token. */
  accountId: string | null
  /** The group of a deploy token, and its role in the group's repositories. Null for everybody else. */
  deploy: { groupId: string; role: Role } | null
  /** Whether a site administrator acts as one: in a browser, or with an admin token. No other token carries the right. */
  isSiteAdmin: boolean
}

/** Returns the reader for a browser of an account. A null account is a visitor who is not signed in. */
export function accountReader(accountId: string | null): RepositoryReader {
  return { accountId, resourceScope: 'all', repositoryIds: [], deploy: null, isSiteAdmin: true }
}

/** Returns the reader for what a token of an account can reach that is no admin token. */
export function tokenReader(accountId: string): RepositoryReader {
  return { ...accountReader(accountId), isSiteAdmin: false }
}

/** A repository and the account's role on it. */
export interface AccessibleRepository extends Repository {
  /** Null for a public repository on which the account has no role. */
  role: Role | null
  createdAt: Date
}

/** A group and the account's role on it. */
export interface AccessibleGroup {
  name: string
  /** Null if the account is a member of a repository in the group, but not of the group. */
  role: Role | null
  createdAt: Date
}

/** Returns the values of a reader: the first six parameters of a statement with `isVisible`. */
export const readerValues = ({
  accountId,
  resourceScope,
  repositoryIds,
  deploy,
  isSiteAdmin,
}: RepositoryReader) => [
  accountId,
  resourceScope,
  repositoryIds,
  deploy?.groupId ?? null,
  deploy?.role ?? null,
  isSiteAdmin,
]

/** SQL that tells whether the account acts as a site administrator. */
const isSiteAdmin = 'coalesce((select is_admin and $6 from account where id = $1), false)'
/** SQL for the role of the account or deploy token on a repository. */
const roleOn = (id: string, groupId: string) =>
  `coalesce(case when ${isSiteAdmin} then 'admin'::member_role end,
            (select role from role_as_member($1, ${groupId}, ${id})),
            case when ${groupId} = $4::bigint then $5::member_role end)`

/**
 * SQL for the ids of the repositories on which the account has a role as a member. Site administrators need
 * `isSiteAdmin` too.
 */
const memberIds = `(select repository_id from counted_repository_member where account_id = $1
                     union
                    select r.id from counted_group_member m join repository r on r.group_id = m.group_id
                     where m.account_id = $1)`
const isInResourceScope = `($2::resource_scope = 'all' or ($2 = 'public' and r.visibility = 'public')
  or ($2 = 'specified' and r.id = any($3::bigint[])))`
/**
 * SQL that tells whether the account or deploy token may access the repository `r`. For lists that do not start from
 * memberships.
 */
const isAccessible = `(${isInResourceScope}
  and ((r.group_id = $4::bigint and $5::member_role is not null)
       or exists (select from counted_repository_member where repository_id = r.id and account_id = $1)
       or exists (select from counted_group_member where group_id = r.group_id and account_id = $1) or ${isSiteAdmin}))`

/** SQL that tells whether the reader may pull from the repository `r`. */
export const isVisible = `(r.visibility = 'public' or ${isAccessible})`

const repositoryColumns =
  'r.id, r.group_id, g.name as group_name, r.name, r.visibility, r.description, r.release, r.two_people, r.created_at'

/**
 * Lists the repositories on which the account has a role and that the token may access, by group and name. `search` is
 * a text in the path or description. For a site administrator, it reads repositories in the order of the list. For a
 * member, it reads those of one group after the other until it has enough, and those of which the account itself is a
 * member. So it reads neither all repositories, nor all of a member of large groups.
 */
export async function listAccessibleRepositories(
  db: Queryable,
  reader: RepositoryReader,
  { after, limit, search = '' }: ListPart & { search?: string },
): Promise<(AccessibleRepository & { role: Role })[]> {
  const [group = '', name = ''] = (after ?? '').split('/')
  const isWanted = `${isInResourceScope} and r.name > case when g.name > $7 then '' else $8 end
       and ($9 = '' or strpos(lower(g.name || '/' || r.name || ' ' || r.description), lower($9)) > 0)`
  const part = `${isWanted} and g.name >= $7 order by g.name, r.name limit $10`
  const { rows } = await db.query<AccessibleRepository & { role: Role }>(
    `with part as (
       (select ${repositoryColumns} from repository r join repository_group g on g.id = r.group_id
         where ${isSiteAdmin} and ${part})
       union
       (select ${repositoryColumns}
          from (select id, name from repository_group
                 where id in (select $4::bigint union select group_id from counted_group_member where account_id = $1)
                   and name >= $7 and not ${isSiteAdmin}
                 order by name) g
         cross join lateral (select * from repository r where r.group_id = g.id and ${isWanted}
                              order by r.name limit $10) r
         order by g.name, r.name limit $10)
       union
       (select ${repositoryColumns}
          from counted_repository_member m
          join repository r on r.id = m.repository_id join repository_group g on g.id = r.group_id
         where m.account_id = $1 and not ${isSiteAdmin} and ${part})
     )
     select id, group_name || '/' || name as path, visibility, description, release, two_people as "twoPeople", created_at as "createdAt",
            ${roleOn('id', 'group_id')} as role
       from part
      order by group_name, name limit $10`,
    [...readerValues(reader), group, name, search, limit],
  )
  return rows
}

/** Lists those of the named repositories on which the account is a member, by group and name: a token can be for them. */
export async function listNamedRepositories(
  db: Queryable,
  accountId: string,
  paths: readonly string[],
): Promise<(AccessibleRepository & { role: Role })[]> {
  const { rows } = await db.query<AccessibleRepository & { role: Role }>(
    `select r.id, g.name || '/' || r.name as path, r.visibility, r.description, r.release, r.two_people as "twoPeople", r.created_at as "createdAt",
            own.role
       from (select distinct unnest($2::text[]) as path) as wanted
       join repository_group g on g.name = split_part(wanted.path, '/', 1)
       join repository r on r.group_id = g.id and r.name = split_part(wanted.path, '/', 2)
      cross join lateral role_as_member($1, g.id, r.id) own
      where g.name || '/' || r.name = wanted.path and own.role is not null
      order by g.name, r.name`,
    [accountId, paths],
  )
  return rows
}

/** Returns those of the paths whose repositories are public or on which the account has a role. */
export async function listVisiblePaths(
  db: Queryable,
  accountId: string,
  paths: readonly string[],
): Promise<string[]> {
  const { rows } = await db.query<{ path: string }>(
    `select g.name || '/' || r.name as path
       from unnest($2::text[]) as wanted (path)
       join repository_group g on g.name = split_part(wanted.path, '/', 1)
       join repository r on r.group_id = g.id and r.name = split_part(wanted.path, '/', 2)
      where r.visibility = 'public' or role_of($1, r.id) is not null`,
    [accountId, paths],
  )
  return rows.map(({ path }) => path)
}

/** Lists the repositories of a group that the token may see, by name. Public repositories are included. */
export async function listRepositoriesOfGroup(
  db: Queryable,
  reader: RepositoryReader,
  groupName: string,
  { after, limit }: ListPart,
): Promise<AccessibleRepository[]> {
  const { rows } = await db.query<AccessibleRepository>(
    `select r.id, g.name || '/' || r.name as path, r.visibility, r.description, r.release, r.two_people as "twoPeople", r.created_at as "createdAt",
            ${roleOn('r.id', 'r.group_id')} as role
       from repository_group g join repository r on r.group_id = g.id
      where g.name = $7 and ${isVisible} and r.name > $8
      order by r.name limit $9`,
    [...readerValues(reader), groupName, after ?? '', limit],
  )
  return rows
}

const groupColumns = `g.name, g.created_at as "createdAt",
  coalesce((select role from counted_group_member where group_id = g.id and account_id = $1),
           case when g.id = $4::bigint then $5::member_role end) as role`
/** A token with the resource scope `all` sees every group of the account, even one without repositories. */
const isGroupAccessible = `(
  ($2::resource_scope = 'all'
   and (${isSiteAdmin} or g.id = $4::bigint
        or exists (select from counted_group_member where group_id = g.id and account_id = $1)))
  or exists (select from repository r where r.group_id = g.id and ${isAccessible}))`

/**
 * Lists the groups that the account is a member of, and the groups with a repository that the token may access, by
 * name.
 */
export async function listAccessibleGroups(
  db: Queryable,
  reader: RepositoryReader,
  { after, limit }: ListPart,
): Promise<AccessibleGroup[]> {
  const part = `${isGroupAccessible} and g.name > $7 order by g.name limit $8`
  const { rows } = await db.query<AccessibleGroup>(
    `with part as (
       (select g.id, g.name, g.created_at from repository_group g where ${isSiteAdmin} and ${part})
       union all
       (select g.id, g.name, g.created_at from repository_group g
         where not ${isSiteAdmin}
           and g.id in (select $4::bigint
                         union
                        select group_id from counted_group_member where account_id = $1
                         union
                        select r.group_id from counted_repository_member m join repository r on r.id = m.repository_id
                         where m.account_id = $1)
           and ${part})
     )
     select ${groupColumns} from part g order by g.name`,
    [...readerValues(reader), after ?? '', limit],
  )
  return rows
}

/** Returns whether the token may see that a group of this name exists. */
export async function isGroupVisible(
  db: Queryable,
  reader: RepositoryReader,
  groupName: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from repository_group g
      where g.name = $7 and (${isGroupAccessible}
        or exists (select from repository r where r.group_id = g.id and r.visibility = 'public'))`,
    [...readerValues(reader), groupName],
  )
  return rowCount === 1
}

/**
 * Finds repositories with the text in path or description. It finds public repositories, and those on which the account
 * has a role.
 */
export async function searchRepositories(
  db: Queryable,
  accountId: string | null,
  search: string,
  limit: number,
): Promise<AccessibleRepository[]> {
  const { rows } = await db.query<AccessibleRepository>(
    `select r.id, g.name || '/' || r.name as path, r.visibility, r.description, r.release, r.two_people as "twoPeople", r.created_at as "createdAt",
            role_of($1, r.id) as role
       from repository r join repository_group g on g.id = r.group_id
      where (r.visibility = 'public' or r.id in ${memberIds} or coalesce((select is_admin from account where id = $1), false))
        and strpos(lower(g.name || '/' || r.name || ' ' || r.description), lower($2)) > 0
      order by strpos(g.name || '/' || r.name, lower($2)) = 0, g.name, r.name limit $3`,
    [accountId, search, limit],
  )
  return rows
}

/** Lists the public repositories, by group and name, with the role of the account on each. */
export async function listPublicRepositories(
  db: Queryable,
  accountId: string | null,
  { after, limit }: ListPart,
): Promise<AccessibleRepository[]> {
  const [group = '', name = ''] = (after ?? '').split('/')
  const { rows } = await db.query<AccessibleRepository>(
    `select r.id, g.name || '/' || r.name as path, r.visibility, r.description, r.release, r.two_people as "twoPeople", r.created_at as "createdAt",
            role_of($1, r.id) as role
       from (select r.id
               from repository r join repository_group g on g.id = r.group_id
              where r.visibility = 'public' and (g.name, r.name) > ($2, $3)
              order by g.name, r.name limit $4) listed
       join repository r using (id) join repository_group g on g.id = r.group_id
      order by g.name, r.name`,
    [accountId, group, name, limit],
  )
  return rows
}

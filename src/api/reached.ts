import type { Queryable } from '../database/database.ts'
import type { Role, TokenGrant } from '../domain/permissions.ts'
import type { ListPart } from '../repositories/list-part.ts'
import type { Repository } from '../repositories/repositories.ts'

/** Whose repositories are listed: an account's, as far as its token reaches (DESIGN §1). */
export interface Reach extends Pick<TokenGrant, 'resourceScope' | 'repositoryIds'> {
  accountId: string
}

/** A repository as it stands to the account. */
export interface ReachedRepository extends Repository {
  /** Null for a public repository of which the account is no member. */
  role: Role | null
  createdAt: Date
}

/** A group as it stands to the account. */
export interface ReachedGroup {
  name: string
  /** Null for one of which the account is no member, but of some repository in it. */
  role: Role | null
  createdAt: Date
}

const reachValues = ({ accountId, resourceScope, repositoryIds }: Reach) => [
  accountId,
  resourceScope,
  repositoryIds,
]

const isServiceAdmin = '(select is_admin from account where id = $1)'
const isReached = `(
  ($2::resource_scope = 'all' or ($2 = 'public' and r.visibility = 'public')
   or ($2 = 'specified' and r.id = any($3::bigint[])))
  and (r.group_id in (select group_id from group_member where account_id = $1)
       or r.id in (select repository_id from repository_member where account_id = $1) or ${isServiceAdmin}))`

const repositoryColumns = `r.id, g.name || '/' || r.name as path, r.visibility, r.description,
  role_of($1, r.id) as role, r.created_at as "createdAt"`
const repositoryTables = 'repository r join repository_group g on g.id = r.group_id'

/** The repositories on which the account has a role and which the token reaches, by path. */
export async function listReachedRepositories(
  db: Queryable,
  reach: Reach,
  { after, limit }: ListPart,
): Promise<ReachedRepository[]> {
  const [group = '', name = ''] = (after ?? '').split('/')
  const { rows } = await db.query<ReachedRepository>(
    `select ${repositoryColumns} from ${repositoryTables}
      where ${isReached} and (g.name, r.name) > ($4, $5)
      order by g.name, r.name limit $6`,
    [...reachValues(reach), group, name, limit],
  )
  return rows
}

/** The repositories of a group that the token may see, public ones too, by name. */
export async function listRepositoriesOfGroup(
  db: Queryable,
  reach: Reach,
  groupName: string,
  { after, limit }: ListPart,
): Promise<ReachedRepository[]> {
  const { rows } = await db.query<ReachedRepository>(
    `select ${repositoryColumns} from ${repositoryTables}
      where g.name = $4 and (r.visibility = 'public' or ${isReached}) and r.name > $5
      order by r.name limit $6`,
    [...reachValues(reach), groupName, after ?? '', limit],
  )
  return rows
}

const isGroupReached = `(
  ($2::resource_scope = 'all' and (g.id in (select group_id from group_member where account_id = $1) or ${isServiceAdmin}))
  or exists (select from repository r where r.group_id = g.id and ${isReached}))`
const groupColumns = `g.name, g.created_at as "createdAt",
  (select role from group_member where group_id = g.id and account_id = $1) as role`

/** The groups of which the account is a member, or which hold a repository that the token reaches, by name. */
export async function listReachedGroups(
  db: Queryable,
  reach: Reach,
  { after, limit }: ListPart,
): Promise<ReachedGroup[]> {
  const { rows } = await db.query<ReachedGroup>(
    `select ${groupColumns} from repository_group g
      where ${isGroupReached} and g.name > $4 order by g.name limit $5`,
    [...reachValues(reach), after ?? '', limit],
  )
  return rows
}

/** Whether the token may see that a group of this name exists. */
export async function isGroupSeen(db: Queryable, reach: Reach, groupName: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `select from repository_group g
      where g.name = $4 and (${isGroupReached}
        or exists (select from repository r where r.group_id = g.id and r.visibility = 'public'))`,
    [...reachValues(reach), groupName],
  )
  return rowCount === 1
}

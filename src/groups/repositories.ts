import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import type { ReleaseRule, Role, Visibility } from '../domain/permissions.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { changePaths, shareTenancy } from './path-locks.ts'

/** A repository with its one Composer registry (CONTRACT 1.2). */
export interface Repository {
  id: string
  /** `acme/php`. */
  path: string
  visibility: Visibility
  description: string
  release: ReleaseRule
  /** Whether nobody releases alone what they staged themselves. */
  twoPeople: boolean
}

const columns = `r.id, g.name || '/' || r.name as path, r.visibility, r.description, r.release,
  r.two_people as "twoPeople"`
const tables = 'repository r join repository_group g on g.id = r.group_id'

/** Returns `{registry_url}` (CONTRACT 4.6): the URL of a repository's registry, with a slash at the end. */
export function registryUrl(baseUrl: string, path: string): string {
  return `${baseUrl}/${path}/-/packages/`
}

/** Finds the repository with a path such as `acme/php`. Null when there is none. Does not check permissions. */
export async function findRepositoryByPath(db: Queryable, path: string): Promise<Repository | null> {
  const [group, name, ...rest] = path.split('/')
  if (rest.length > 0) return null
  const { rows } = await db.query<Repository>({
    name: 'find-repository-by-path',
    text: `select ${columns} from ${tables} where g.name = $1 and r.name = $2`,
    values: [group, name],
  })
  return rows[0] ?? null
}

/** Finds a repository by id, with its creation time. Null when it was deleted, even if it can be restored. */
export async function findRepository(
  db: Queryable,
  id: string,
): Promise<(Repository & { createdAt: Date }) | null> {
  const { rows } = await db.query<Repository & { createdAt: Date }>(
    `select ${columns}, r.created_at as "createdAt" from ${tables} where r.id = $1`,
    [id],
  )
  return rows[0] ?? null
}

/** The settings of a repository. */
export type RepositorySettings = Pick<Repository, 'description' | 'visibility' | 'release' | 'twoPeople'>

/** Changes of settings. What is null or missing keeps its value. */
export type RepositoryChanges = {
  [Name in keyof RepositorySettings]?: RepositorySettings[Name] | null | undefined
}

/** Changes the values that are not null. Returns the settings before, too. Null when the repository was deleted. */
export async function changeRepository(
  db: Queryable,
  id: string,
  { description = null, visibility = null, release = null, twoPeople = null }: RepositoryChanges,
): Promise<{ repository: Repository & { createdAt: Date }; former: RepositorySettings } | null> {
  const { rows } = await db.query<Repository & { createdAt: Date; former: RepositorySettings }>(
    `update repository r
        set description = coalesce($2, r.description), visibility = coalesce($3, r.visibility),
            release = coalesce($4, r.release), two_people = coalesce($5, r.two_people)
       from repository_group g,
            (select id, description, visibility, release, two_people
               from repository where id = $1 for no key update) former
      where r.id = former.id and g.id = r.group_id
      returning ${columns}, r.created_at as "createdAt",
                jsonb_build_object('description', former.description, 'visibility', former.visibility,
                                   'release', former.release, 'twoPeople', former.two_people) as former`,
    [id, description, visibility, release, twoPeople],
  )
  if (!rows[0]) return null
  const { former, ...repository } = rows[0]
  return { repository, former }
}

const packagesAtOnce = 2_000

/**
 * Renames a repository. The old name stays reserved for it, so that old URLs still lead to the repository. Returns the
 * old name, or null when the repository was deleted. Throws with the constraint `repository_name_is_taken`,
 * `repository_name_is_reserved` (a former name of another repository) or `repository_name_is_well_formed`.
 */
export async function renameRepository(
  tx: pg.PoolClient,
  id: string,
  newName: string,
): Promise<string | null> {
  const groupId = await findGroupId(tx, id)
  if (groupId === null) return null
  await changePaths(tx, groupId)
  // A weaker lock than "for update" would have to become stronger when the name changes. That causes a deadlock with a
  // transaction that has added a row of the repository and will update the repository.
  const { rows } = await tx.query<{ name: string }>(
    `with old as materialized (
       select id, group_id, name from repository where id = $1 for update
     ), renamed as (
       update repository r set name = $2 from old where r.id = old.id and old.name <> $2
     ), taken_back as (
       delete from repository_alias a using old
        where a.group_id = old.group_id and a.name = $2 and a.repository_id = old.id
     ), kept as (
       insert into repository_alias (group_id, name, repository_id)
       select group_id, name, id from old where name <> $2
     )
     select name from old`,
    [id, newName],
  )
  return rows[0]?.name ?? null
}

/**
 * Locks a repository, so that what counts its rows and adds one runs alone, and no deletion comes between. Throws errcode 5
 * when there is none, or it was deleted.
 */
export async function lockRepository(tx: pg.PoolClient, id: string): Promise<void> {
  const { rowCount } = await tx.query(
    'select from repository where id = $1 and group_id is not null for no key update',
    [id],
  )
  if (rowCount !== 1) throw new Refusal(errcode.notFound, 'repository not found')
}

/**
 * Finds the current path of a repository, or of a group if the name is null, by one of its former paths. Null when it
 * has this path now, or the account may not see it. A null account is a visitor who is not signed in.
 */
export async function findCurrentPath(
  db: Queryable,
  { group, name }: { group: string; name: string | null },
  accountId: string | null,
): Promise<string | null> {
  const { rows } = await db.query<{ path: string }>(
    name === null
      ? `select g.name as path
           from repository_group g
          where g.id = group_named($1) and g.name <> $1
            and exists (select from repository r
                         where r.group_id = g.id and (r.visibility = 'public' or role_of($2, r.id) is not null))`
      : `select g.name || '/' || r.name as path
           from repository_group g
           left join repository named on named.group_id = g.id and named.name = $3
           left join repository_alias former on named.id is null and former.group_id = g.id and former.name = $3
           join repository r on r.id = coalesce(named.id, former.repository_id) and r.group_id is not null
          where g.id = group_named($1) and (g.name, r.name) is distinct from ($1, $3)
            and (r.visibility = 'public' or role_of($2, r.id) is not null)`,
    name === null ? [group, accountId] : [group, accountId, name],
  )
  return rows[0]?.path ?? null
}

/**
 * Removes a repository with its packages for good, also one that can be restored. Garbage collection removes their
 * archives. Returns false when it was removed before.
 */
export async function purgeRepository(tx: pg.PoolClient, id: string): Promise<boolean> {
  const { rows: found } = await tx.query<{ groupId: string }>(
    'select coalesce(group_id, deleted_from_id) as "groupId" from repository where id = $1',
    [id],
  )
  const { groupId = null } = found[0] ?? {}
  if (groupId === null) return false
  await shareTenancy(tx, groupId)
  // Lock packages, then upstreams, then their repository, in the same order as every other change. Another order would
  // cause deadlocks. Upstreams come late, because documents of other repositories wait together with those of this one.
  const { rowCount: packages } = await tx.query(
    'select from package where repository_id = $1 order by id for update',
    [id],
  )
  const hadPackages = (packages ?? 0) > 0
  // Delete in steps of about half a second each. One statement for 100,000 packages would exceed the statement timeout.
  while ((await deleteSomePackages(tx, id)) === packagesAtOnce);
  await tx.query('select from upstream where repository_id = $1 order by id for update', [id])
  await tx.query(
    `update repository_group g set has_published = true
      where g.id = $1 and not g.has_published
        and ($2 or exists (select from mirrored_package where repository_id = $3))`,
    [groupId, hadPackages, id],
  )
  const { rowCount } = await tx.query('delete from repository where id = $1', [id])
  return rowCount === 1
}

/** Finds the id of the group of a repository. Null when the repository was deleted. */
export async function findGroupId(db: Queryable, id: string): Promise<string | null> {
  const { rows } = await db.query<{ groupId: string | null }>(
    'select group_id as "groupId" from repository where id = $1',
    [id],
  )
  return rows[0]?.groupId ?? null
}

async function deleteSomePackages(tx: pg.PoolClient, repositoryId: string): Promise<number | null> {
  const { rowCount } = await tx.query(
    'delete from package where id in (select id from package where repository_id = $1 order by id limit $2)',
    [repositoryId, packagesAtOnce],
  )
  return rowCount
}

/** A repository to insert. */
export interface NewRepository {
  groupId: string
  name: string
  visibility: Visibility
  description?: string
}

/**
 * Creates a repository. Throws with the constraint `repository_name_is_taken`, `repository_name_is_well_formed` or
 * `repository_description_max_350_characters`.
 */
export async function insertRepository(db: Queryable, repository: NewRepository): Promise<Repository> {
  const { groupId, name, visibility, description = '' } = repository
  const { rows } = await db.query<Repository>(
    `with made as (
       insert into repository (group_id, name, visibility, description) values ($1, $2, $3, $4)
       returning id, group_id, name, visibility, description, release, two_people
     )
     select ${columns} from made r join repository_group g on g.id = r.group_id`,
    [groupId, name, visibility, description],
  )
  return rows[0] as Repository
}

/** A repository with the numbers of its packages and of its direct members. */
export interface CountedRepository extends Repository {
  createdAt: Date
  packages: number
  members: number
}

/** Which repositories are listed. Missing and null members do not limit the list. */
export interface RepositoryFilter {
  groupId?: string | null
  /** A text in the path or description. */
  search?: string | undefined
  visibility?: Visibility | null
}

/** Lists repositories by path. `after` is a path. */
export async function listRepositories(
  db: Queryable,
  { groupId = null, search = '', visibility = null }: RepositoryFilter,
  { after, limit }: ListPart,
): Promise<CountedRepository[]> {
  const [group = '', name = ''] = (after ?? '').split('/')
  const { rows } = await db.query<CountedRepository>(
    `select ${columns}, r.created_at as "createdAt",
            (select count(*)::int from package p where p.repository_id = r.id) as packages,
            (select count(*)::int from repository_member m where m.repository_id = r.id) as members
       from ${tables}
      where (g.name, r.name) > ($1, $2) and ($3::bigint is null or g.id = $3)
        and ($5 = '' or strpos(g.name || '/' || r.name, lower($5)) > 0
             or strpos(lower(r.description), lower($5)) > 0)
        and ($6::repository_visibility is null or r.visibility = $6)
      order by g.name, r.name limit $4`,
    [group, name, groupId, limit, search, visibility],
  )
  return rows
}

/** How many repositories there are: all, and those of each visibility. */
export type RepositoryCounts = Record<'all' | Visibility, number>

/** Counts the repositories that are not deleted. */
export async function countRepositories(db: Queryable): Promise<RepositoryCounts> {
  const { rows } = await db.query<RepositoryCounts>(
    `select count(*)::int as all, (count(*) filter (where visibility = 'public'))::int as public,
            (count(*) filter (where visibility = 'private'))::int as private
       from repository where group_id is not null`,
  )
  return rows[0] as RepositoryCounts
}

/** A repository of a locked group. */
export interface LockedRepository {
  id: string
  path: string
  /** Whether it was deleted and can be restored. */
  isDeleted: boolean
}

/** Locks a group, so that it gets no new repository. Returns its repositories, deleted ones included. */
export async function lockRepositoriesOf(tx: pg.PoolClient, groupId: string): Promise<LockedRepository[]> {
  await tx.query('select from repository_group where id = $1 for update', [groupId])
  const { rows } = await tx.query<LockedRepository>(
    `select r.id, g.name || '/' || r.name as path, r.group_id is null as "isDeleted"
       from repository_group g join repository r on g.id in (r.group_id, r.deleted_from_id)
      where g.id = $1 order by r.id`,
    [groupId],
  )
  return rows
}

/** A repository, with the role of the visitor of the repository's page. */
export interface VisibleRepository extends Repository {
  /** Null for a public repository on which the visitor has no role. */
  role: Role | null
  /** How many packages of upstreams wait for a decision. Zero for people who are not admins. */
  waiting: number
  /** How many staged versions wait for their release. Zero for people who may not push. */
  staged: number
}

/**
 * Finds a repository by path. A null account is a visitor who is not signed in. Null when there is no repository, or
 * the account may not see it. Both take the same time, because the statement looks up a role either way.
 */
export async function findVisibleRepository(
  db: Queryable,
  { group, name }: { group: string; name: string },
  accountId: string | null,
): Promise<VisibleRepository | null> {
  const { rows } = await db.query<VisibleRepository>({
    name: 'find-visible-repository',
    // PostgreSQL would skip the role of a repository that does not exist, if the expression were not materialized.
    text: `with found as materialized (
             select ${columns}, own.role
               from (values (true)) as request (is_one)
               left join repository_group g on g.name = $1
               left join repository r on r.group_id = coalesce(g.id, 0) and r.name = $2
              cross join lateral role_in_repository($3, coalesce(g.id, 0), coalesce(r.id, 0)) own)
           select id, path, visibility, description, release, "twoPeople", role,
                  case when role = 'admin' then count_waiting(id) else 0 end as waiting,
                  case when role >= 'developer' then (
                    select count(*)::int from staged_version
                     where repository_id = found.id and state = 'staged' and expires_at > now()) else 0 end as staged
             from found
            where id is not null and (visibility = 'public' or role is not null)`,
    values: [group, name, accountId],
  })
  return rows[0] ?? null
}

import type pg from 'pg'
import type { Queryable } from '../../database/database.ts'
import type { ListPart } from '../../domain/paging.ts'

/** A package whose latest version requires another one. */
export interface Dependent {
  /** `<repository id>-<package id>`: the position in the list. */
  id: string
  repositoryPath: string
  name: string
  description: string
  /** Whether the package is required for development only. */
  isDev: boolean
  /** The constraint, such as `^1.2`. */
  requirement: string
}

/** The repositories that an account may see. $1 is the account, or null for a visitor who is not signed in. */
const visible = `visible as materialized (
  select r.id, g.name || '/' || r.name as path
    from repository r join repository_group g on g.id = r.group_id
   where r.visibility = 'public'
      or r.id in (select repository_id from counted_repository_member where account_id = $1)
      or r.group_id in (select group_id from counted_group_member where account_id = $1)
      or coalesce((select is_admin from account where id = $1), false)
)`

/**
 * Lists the packages whose latest version requires a name, in the repositories that the account may see. It reads one
 * index in order, so a name that 100,000 packages require costs no more than others.
 */
export async function listDependents(
  db: Queryable,
  { accountId, target }: { accountId: string | null; target: string },
  { after, limit }: ListPart,
): Promise<Dependent[]> {
  const [, repositoryId = '0', packageId = '0'] = /^(\d{1,18})-(\d{1,18})$/.exec(after ?? '') ?? []
  const { rows } = await db.query<Dependent>(
    `with ${visible}
     select d.repository_id || '-' || d.package_id as id, visible.path as "repositoryPath", p.name, p.description,
            d.is_dev as "isDev", d.requirement
       from package_dependency d
       join visible on visible.id = d.repository_id
       join package p on p.id = d.package_id
      where d.target = $2 and (d.repository_id, d.package_id) > ($3, $4)
        and latest_version(p.id) is not null
      order by d.repository_id, d.package_id, d.is_dev limit $5`,
    [accountId, target, repositoryId, packageId, limit],
  )
  return rows
}

/** How many packages of one name are checked in other repositories. */
const maxPlaces = 50

/** A repository where a required package is found. */
export interface FoundRequirement {
  name: string
  /** The repository with the package. */
  repositoryPath: string
  /** True when this repository gets the package from an upstream. */
  isMirrored: boolean
}

/**
 * Finds the given names among the packages that the account may see. A package of the same repository takes precedence.
 */
export async function listRequirementPlaces(
  db: Queryable,
  { accountId, repositoryId }: { accountId: string | null; repositoryId: string },
  names: readonly string[],
): Promise<FoundRequirement[]> {
  const { rows } = await db.query<FoundRequirement>(
    `with named as materialized (
       select p.id, p.repository_id, p.name, false as is_mirrored
         from unnest($3::text[]) as wanted (name)
        cross join lateral (
          select * from package where repository_id = $2 and name = wanted.name
          union all
          (select * from package where repository_id <> $2 and name = wanted.name limit ${maxPlaces})) p
       union all
       select null, repository_id, name, true
         from mirrored_package where repository_id = $2 and name = any($3) and upstream_id is not null
     )
     select distinct on (n.name) n.name, g.name || '/' || r.name as "repositoryPath", n.is_mirrored as "isMirrored"
       from named n join repository r on r.id = n.repository_id join repository_group g on g.id = r.group_id
      where (r.visibility = 'public' or role_of($1, r.id) is not null)
        and (n.is_mirrored or latest_version(n.id) is not null)
      order by n.name, n.repository_id <> $2, n.is_mirrored, "repositoryPath"`,
    [accountId, repositoryId, names],
  )
  return rows
}

/** Writes the requirements of the latest version of a package that this transaction has locked. */
export async function saveDependencies(
  tx: pg.PoolClient,
  { id, repositoryId }: { id: string; repositoryId: string },
): Promise<void> {
  await tx.query({
    name: 'save-dependencies',
    text: 'select save_dependencies($1, $2)',
    values: [id, repositoryId],
  })
}

import type { Queryable } from '../../database/database.ts'
import { gramsOf, some } from './matching-packages.ts'

/** A package that a search over all repositories found. */
export interface FoundPackage {
  repositoryPath: string
  name: string
  description: string
  latestVersion: string
  isAbandoned: boolean
}

/** How many packages the search reads without an index, in all repositories together. */
const maxWalked = 2_000
/** How many packages of each repository the search reads without an index: those with the shortest names. */
const maxWalkedOfOne = 500
/** How many repositories the search reads without an index. */
const maxRepositories = 1_000
/** How many packages the index returns at most, before permissions are checked. */
const maxLookedUp = 2_000
/** How many packages the search ranks when it uses the index. */
const maxRanked = 1_000
/** How many grams of a text are looked up. Each gram costs a read of one more list of the index. */
const maxGrams = 3

const isSiteAdmin = 'coalesce((select is_admin from account where id = $1), false)'
/** The public repositories, and those on which the account has a role. Site administrators also see all others. */
const visibleIds = `(select id from repository where visibility = 'public' and group_id is not null
   union select repository_id from counted_repository_member where account_id = $1
   union select r.id from counted_group_member m join repository r on r.group_id = m.group_id where m.account_id = $1)`
const isListed = `exists (select from package_version v where v.package_id = p.id and v.is_listed)
  and exists (select from repository r where r.id = p.repository_id and r.group_id is not null)`
const inName = 'strpos(p.name, lower($2)) > 0'
const inTexts = `(${inName} or strpos(lower(p.description), lower($2)) > 0)`

/**
 * The best of `matches`: first the names that equal the text, then the names that contain it, then the shortest names.
 */
const bestMatches = `
  select o.name || '/' || r.name as "repositoryPath", f.name, f.description, latest.version as "latestVersion",
         f.abandoned_at is not null as "isAbandoned"
    from (select p.id, p.repository_id, p.name, p.description, p.abandoned_at,
                 strpos(p.name, lower($2)) = 0 as is_elsewhere
            from matches p
           order by p.name <> lower($2), is_elsewhere, char_length(p.name), p.name, p.id limit $3) f
    join repository r on r.id = f.repository_id
    join repository_group o on o.id = r.group_id
    join package_version latest on latest.id = latest_version(f.id)
   order by f.name <> lower($2), f.is_elsewhere, char_length(f.name), f.name, "repositoryPath"`
const columns = 'p.id, p.repository_id, p.name, p.description, p.abandoned_at'

/**
 * Searches names and descriptions of the packages in all repositories that the account may see. A null account is a
 * visitor who is not signed in. Matches in the name come first.
 *
 * The cost is bounded, however many packages there are. For an account that sees few packages, it reads them all and
 * finds every match. Otherwise the index finds the matches. For a frequent text the index finds only some of them.
 */
export async function searchAllPackages(
  db: Queryable,
  accountId: string | null,
  search: string,
  limit: number,
): Promise<FoundPackage[]> {
  const { found, isAll } = await walkVisiblePackages(db, accountId, search, limit)
  const hasBest = found.length >= limit && found.every(({ name }) => name.includes(search.toLowerCase()))
  if (isAll || hasBest) return found
  const inNames = await lookUpVisiblePackages(db, accountId, search, 'name', limit)
  if (inNames.length >= limit) return inNames
  // A text that was found often enough without the index is frequent. Its list in the index is long.
  const isFrequent = found.length >= limit
  const inAll = isFrequent ? [] : await lookUpVisiblePackages(db, accountId, search, 'text', limit)
  const known = new Map(
    [...inNames, ...inAll, ...found].map((one) => [`${one.repositoryPath} ${one.name}`, one]),
  )
  return [...known.values()].slice(0, limit)
}

/**
 * Reads the packages with the shortest names of each visible repository. For a site administrator it reads those of the
 * whole site.
 */
async function walkVisiblePackages(
  db: Queryable,
  accountId: string | null,
  search: string,
  limit: number,
): Promise<{ found: FoundPackage[]; isAll: boolean }> {
  const { rows } = await db.query<FoundPackage & { isAll: boolean }>(
    `with visible as materialized (
       select v.id from ${visibleIds} v where not ${isSiteAdmin} limit ${maxRepositories + 1}
     ), walked as materialized (
       (select ${columns} from package p where ${isSiteAdmin}
         order by char_length(p.name), p.name collate "C" limit ${maxWalked})
       union all
       (select p.* from visible cross join lateral (
          select ${columns} from package p where p.repository_id = visible.id
           order by char_length(p.name), p.name collate "C" limit ${maxWalkedOfOne}) p
         limit ${maxWalked})
     ), whole as (
       select (select count(*) from visible) <= ${maxRepositories} and (select count(*) from walked) < ${maxWalked}
              and not exists (select from walked group by repository_id
                              having count(*) = ${maxWalkedOfOne} and not ${isSiteAdmin}) as is_all
     ), matches as materialized (
       select p.* from walked p where ${inTexts} and ${isListed}
     )
     select whole.is_all as "isAll", best.* from whole left join lateral (${bestMatches}) best on true`,
    [accountId, search, limit],
  )
  return { found: rows.filter(({ name }) => name !== null), isAll: rows[0]?.isAll ?? true }
}

/** Looks the text up in the index `package_search`, among the packages of all repositories. */
async function lookUpVisiblePackages(
  db: Queryable,
  accountId: string | null,
  search: string,
  where: 'name' | 'text',
  limit: number,
): Promise<FoundPackage[]> {
  const grams = some([...new Set(gramsOf(search.toLowerCase(), where))], maxGrams)
  if (grams.length === 0) return []
  const { rows } = await db.query<FoundPackage>(
    `with looked_up as materialized (
       select * from look_up_all_packages($4, lower($2), in_names => $5, max_count => ${maxLookedUp})
     ), visible as materialized (
       select r.id
         from (select distinct repository_id as id from looked_up) l join repository r on r.id = l.id
        where r.visibility = 'public' or ${isSiteAdmin}
           or exists (select from counted_repository_member where repository_id = r.id and account_id = $1)
           or exists (select from counted_group_member where group_id = r.group_id and account_id = $1)
     ), matches as materialized (
       select ${columns} from looked_up p join visible on visible.id = p.repository_id where ${isListed}
        limit ${maxRanked}
     )
     ${bestMatches}`,
    [accountId, search, limit, grams, where === 'name'],
  )
  return rows
}

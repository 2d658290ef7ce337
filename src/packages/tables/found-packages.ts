import type { Queryable } from '../../database/database.ts'
import { indexedPatterns, matchesAll } from './text-index.ts'

/** A package that a search over all repositories found. */
export interface FoundPackage {
  repositoryPath: string
  name: string
  description: string
  latestVersion: string
  isAbandoned: boolean
}

/** How many packages the search reads without the index of texts, in all repositories together. */
const maxWalked = 2_000
/** How many packages of each repository it reads without that index: those with the shortest names. */
const maxWalkedOfOne = 500
/** How many repositories it reads without that index. */
const maxRepositories = 1_000
/** How many packages the index finds at most, by their names and by their texts, before permissions are checked. */
const maxLookedUp = 2_000

const isSiteAdmin = 'coalesce((select is_admin from account where id = $1), false)'
/** The public repositories, and those on which the account has a role. Site administrators also see all others. */
const visibleIds = `(select id from repository where visibility = 'public' and group_id is not null
   union select repository_id from counted_repository_member where account_id = $1
   union select r.id from counted_group_member m join repository r on r.group_id = m.group_id where m.account_id = $1)`
const isListed = `exists (select from package_version v where v.package_id = p.id and v.is_listed)
  and exists (select from repository r where r.id = p.repository_id and r.group_id is not null)`
const inName = 'strpos(p.name, lower($2)) > 0'
const inTexts = `(${inName} or strpos(lower(p.description), lower($2)) > 0)`
const columns = 'p.id, p.repository_id, p.name, p.description, p.abandoned_at'
/** First the names that equal the text, then the names that contain it, then the shortest names. */
const order = `p.name <> lower($2), not ${inName}, char_length(p.name), p.name`

/**
 * Searches names and descriptions of the packages in all repositories that the account may see. A null account is a
 * visitor who is not signed in. Matches in the name come first.
 *
 * The cost is bounded, however many packages there are. It first reads the packages with the shortest names of each
 * visible repository, or of the whole site for a site administrator. For an account that sees few packages, these are
 * all. Otherwise the index finds more, if these are not enough. For a frequent text the index finds only some of them.
 */
export async function searchAllPackages(
  db: Queryable,
  accountId: string | null,
  search: string,
  limit: number,
): Promise<FoundPackage[]> {
  const patterns = indexedPatterns([search.toLowerCase()])
  const values: unknown[] = [accountId, search, limit]
  const { rows } = await db.query<FoundPackage>({
    name: `search-all-packages-${patterns.names.length}-${patterns.texts.length}`,
    text: `with visible as materialized (
       select v.id from ${visibleIds} v where not ${isSiteAdmin} limit ${maxRepositories + 1}
     ), walked as materialized (
       (select ${columns} from package p where ${isSiteAdmin}
         order by char_length(p.name), p.name collate "C" limit ${maxWalked})
       union all
       (select p.* from visible cross join lateral (
          select ${columns} from package p where p.repository_id = visible.id
           order by char_length(p.name), p.name collate "C" limit ${maxWalkedOfOne}) p
         limit ${maxWalked})
     ), near as materialized (
       select p.* from walked p where ${inTexts} and ${isListed}
     ), enough as materialized (
       select (select count(*) from visible) <= ${maxRepositories} and (select count(*) from walked) < ${maxWalked}
              and not exists (select from walked group by repository_id
                              having count(*) = ${maxWalkedOfOne} and not ${isSiteAdmin}) as is_all,
              count(*) filter (where ${inName}) >= $3 as in_names, count(*) >= $3 as in_texts
         from near p
     ), looked_up as materialized (
       (select ${columns} from package p
         where (select not is_all and not in_names from enough)
           and ${matchesAll('names', patterns, values)} and ${inName}
         limit ${maxLookedUp})
       union all
       (select ${columns} from package p
         where (select not is_all and not in_texts from enough)
           and ${matchesAll('texts', patterns, values)} and ${inTexts}
         limit ${maxLookedUp})
     ), searched as materialized (
       select r.id
         from (select distinct repository_id as id from looked_up) l join repository r on r.id = l.id
        where r.visibility = 'public' or ${isSiteAdmin}
           or exists (select from counted_repository_member where repository_id = r.id and account_id = $1)
           or exists (select from counted_group_member where group_id = r.group_id and account_id = $1)
     ), found as (
       select p.* from near p
        union
       select p.* from looked_up p join searched on searched.id = p.repository_id where ${isListed}
     ), best as (
       select p.* from found p order by ${order}, p.id limit $3
     )
     select g.name || '/' || r.name as "repositoryPath", p.name, p.description, latest.version as "latestVersion",
            p.abandoned_at is not null as "isAbandoned"
       from best p
       join repository r on r.id = p.repository_id
       join repository_group g on g.id = r.group_id
       join package_version latest on latest.id = latest_version(p.id)
      order by ${order}, "repositoryPath"`,
    values,
  })
  return rows
}

import type { Queryable } from '../../database/database.ts'
import { contestedBy } from './contested-names.ts'
import type { ListedMirror } from './mirrored-packages.ts'

/** A mirrored package, or a name that waits for approval, that a search over all repositories found. */
export interface SearchedMirror
  extends Pick<
    ListedMirror,
    | 'name'
    | 'upstream'
    | 'mode'
    | 'isUpstreamRemoved'
    | 'description'
    | 'approvedAt'
    | 'requestedAt'
    | 'goneAt'
    | 'contestedBy'
    | 'alarm'
  > {
  repositoryPath: string
}

/** How many names of each repository the search reads. */
const maxReadOfOne = 10_000
/** How many names the search reads in all repositories together. */
const maxRead = 20_000

/**
 * Searches the names of the packages from upstreams in all repositories that the account may see, as the pages of these
 * repositories list them. A null account is a visitor who is not signed in.
 *
 * The search starts from the upstreams, so it reads nothing if there are none. It reads the names from the index
 * `mirrored_name_is_taken`, up to a limit. A name that equals the text is always found.
 */
export async function searchAllMirrors(
  db: Queryable,
  accountId: string | null,
  search: string,
  limit: number,
): Promise<SearchedMirror[]> {
  const { rows } = await db.query<SearchedMirror>({
    // Planning takes longer than the search of a small installation.
    name: 'search-all-mirrors',
    text: `with visible as materialized (
       select r.id
         from (select distinct repository_id as id from upstream) mirroring join repository r on r.id = mirroring.id
        where r.group_id is not null
          and (r.visibility = 'public' or coalesce((select is_admin from account where id = $1), false)
               or exists (select from counted_repository_member where repository_id = r.id and account_id = $1)
               or exists (select from counted_group_member where group_id = r.group_id and account_id = $1))
     ), read as (
       select named.* from visible cross join lateral (
         select repository_id, name from mirrored_package where repository_id = visible.id
          order by name limit ${maxReadOfOne}) named
        limit ${maxRead}
     ), matches as materialized (
       (select repository_id, name from read where strpos(name, lower($2)) > 0
         order by name <> lower($2), char_length(name), name limit $3)
       union
       (select equal.* from visible cross join lateral (
            select repository_id, name from mirrored_package
             where repository_id = visible.id and name = lower($2) limit 1) equal
           limit $3)
     )
     select g.name || '/' || r.name as "repositoryPath", m.name, m.description, u.name as upstream, u.mode,
            u.removed_at is not null as "isUpstreamRemoved", m.approved_at as "approvedAt",
            m.requested_at as "requestedAt", m.gone_at as "goneAt", ${contestedBy} as "contestedBy",
            (select x.alarm from mirrored_archive x where x.package_id = m.id and x.alarm is not null
              order by x.alarmed_at desc limit 1) as alarm
       from matches
       join mirrored_package m on m.repository_id = matches.repository_id and m.name = matches.name
       join repository r on r.id = m.repository_id
       join repository_group g on g.id = r.group_id
       left join upstream u on u.id = m.upstream_id
      order by m.name <> lower($2), char_length(m.name), m.name, "repositoryPath" limit $3`,
    values: [accountId, search, limit],
  })
  return rows
}

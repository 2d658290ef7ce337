import type { Queryable } from '../database/database.ts'
import type { Visibility } from '../domain/permissions.ts'

/** A repository as the picker shows it. */
export interface RepositoryChoice {
  /** `acme/php`. */
  path: string
  visibility: Visibility
  description: string
  isChosen: boolean
}

/** More than this nobody reads through: the page then asks for a search. */
export const maxChoices = 50

/**
 * The chosen repositories, then those whose path or description contains the words searched for, among the
 * ones that the account has a role on: by path, `maxChoices` of those not chosen and one more to tell that
 * there are more.
 */
export async function listRepositoryChoices(
  db: Queryable,
  accountId: string,
  search: string,
  chosen: readonly string[],
): Promise<RepositoryChoice[]> {
  const { rows } = await db.query<RepositoryChoice>(
    `with reachable as (
       select g.name || '/' || r.name as path, r.visibility, r.description
         from repository r
         join repository_group g on g.id = r.group_id
        where r.id in (select repository_id from repository_member where account_id = $1)
           or r.group_id in (select group_id from group_member where account_id = $1)
           or exists (select from account where id = $1 and is_admin)
     )
     (select path, visibility, description, true as "isChosen" from reachable where path = any ($3) order by path)
     union all
     (select path, visibility, description, false from reachable
       where path <> all ($3) and strpos(lower(path || ' ' || description), lower($2)) > 0
       order by path
       limit $4)`,
    [accountId, search, chosen, maxChoices + 1],
  )
  return rows
}

import type { Queryable } from '../database/database.ts'
import type { Principal } from '../domain/principal.ts'

/**
 * Returns whether a change is made with the rights of the site: from the command line, or by a site administrator in the
 * browser or with an admin token. Applications never act as a site administrator.
 */
export async function hasSiteRights(db: Queryable, { accountId, token, via }: Principal): Promise<boolean> {
  if (via === 'command') return true
  if (accountId === null) return false
  if (token !== null && token.kind !== 'personal') return false
  const { rowCount } = await db.query(
    `select from account
      where id = $1 and is_admin and ($2::bigint is null or exists (select from personal_token where id = $2 and is_admin))`,
    [accountId, token?.tokenId ?? null],
  )
  return rowCount === 1
}

import type { Queryable } from '../database/database.ts'
import { formatCount } from '../domain/formats.ts'

/** Names of admins that a page shows at most. */
const maxNames = 10

/** SQL: the accounts that are admins of a group, or of a repository of it. */
function adminsOf(groupId: string, repositoryId: string): string {
  return `select account_id from counted_group_member where role = 'admin' and group_id = ${groupId}
           union
          select account_id from counted_repository_member where role = 'admin' and repository_id = ${repositoryId}`
}

/**
 * Describes who the admins of a group, or of a repository, are: `ann, bob and 2 others`. Only members may see it. Admins
 * of the group are admins of its repositories. Leaves out disabled accounts, and those without a second factor while the
 * group requires one. Null when there is none.
 */
export async function describeAdmins(
  db: Queryable,
  place: { groupId: string } | { repositoryId: string },
): Promise<string | null> {
  const [groupId, repositoryId] = 'groupId' in place ? [place.groupId, null] : [null, place.repositoryId]
  const { rows } = await db.query<{ username: string; total: number }>(
    `select a.username, count(*) over ()::int as total
       from account a
      where a.disabled_at is null
        and a.id in (${adminsOf('coalesce($1, (select group_id from repository where id = $2))', '$2')})
      order by a.username limit ${maxNames}`,
    [groupId, repositoryId],
  )
  const [first] = rows
  if (!first) return null
  const names = rows.map(({ username }) => username)
  const others = first.total - names.length
  const last = others > 0 ? formatCount(others, 'other') : (names.pop() as string)
  return names.length === 0 ? last : `${names.join(', ')} and ${last}`
}

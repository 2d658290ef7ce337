import type { Queryable } from '../../src/database/database.ts'

/** Counts the tokens of trusted publishers of a repository. */
export async function countTokens(db: Queryable, { id }: { id: string }): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from publisher_token where repository_id = $1',
    [id],
  )
  return rows[0]?.count ?? 0
}

/** Makes the tokens of trusted publishers of a repository this many seconds older. */
export async function ageTokens(db: Queryable, { id }: { id: string }, seconds: number): Promise<void> {
  await db.query(
    'update publisher_token set expires_at = expires_at - make_interval(secs => $2) where repository_id = $1',
    [id, seconds],
  )
}

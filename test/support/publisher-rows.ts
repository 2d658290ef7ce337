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

/** Adds a trusted publisher this many days earlier. */
export async function agePublisher(db: Queryable, id: string, days: number): Promise<void> {
  await db.query(
    'update trusted_publisher set created_at = created_at - make_interval(days => $2) where id = $1',
    [id, days],
  )
}

/** Returns the version that a repository stored first. */
export async function firstVersionOf(db: Queryable, { id }: { id: string }): Promise<string | undefined> {
  const { rows } = await db.query<{ version: string }>(
    `select v.version from package p join package_version v on v.package_id = p.id
      where p.repository_id = $1 order by v.id limit 1`,
    [id],
  )
  return rows[0]?.version
}

/** Pins the ids of a project at a trusted publisher, as its first exchange does. */
export async function pinPublisher(db: Queryable, id: string, pins: Record<string, string>): Promise<void> {
  await db.query('update trusted_publisher set pins = $2 where id = $1', [id, pins])
}

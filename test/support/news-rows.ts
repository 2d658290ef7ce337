import type { Queryable } from '../../src/database/database.ts'

/** Lets the news that wait be two minutes older, so that no more of them is expected. */
export async function ageNews(db: Queryable): Promise<void> {
  await db.query(`update news set noted_at = noted_at - interval '2 minutes' where round is null`)
}

/** Counts the news that wait for their round. */
export async function countWaitingNews(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from news where round is null',
  )
  return rows[0]?.count ?? 0
}

/** Lets the digest of an account be due. */
export async function makeDigestDue(db: Queryable, { id }: { id: string }): Promise<void> {
  await db.query(`update digest set due_at = now() - interval '1 second' where account_id = $1`, [id])
}

/** Returns when the next digest of an account is due. */
export async function digestDueAt(db: Queryable, { id }: { id: string }): Promise<Date> {
  const { rows } = await db.query<{ dueAt: Date }>(
    'select due_at as "dueAt" from digest where account_id = $1',
    [id],
  )
  return (rows[0] as { dueAt: Date }).dueAt
}

/** Lists the actions that people are told about, with their topics. */
export async function listRules(db: Queryable): Promise<{ action: string; topic: string }[]> {
  const { rows } = await db.query<{ action: string; topic: string }>(
    'select action, topic from notification_rule',
  )
  return rows
}

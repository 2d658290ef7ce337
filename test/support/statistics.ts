import type { Queryable } from '../../src/database/database.ts'

/** How many rows PostgreSQL has read from each table without an index so far. */
export async function readRowsByTable(db: Queryable): Promise<Map<string, number>> {
  await db.query('select pg_stat_force_next_flush()')
  const { rows } = await db.query<{ table: string; count: string }>(
    `select relname as table, coalesce(seq_tup_read, 0) as count from pg_stat_user_tables`,
  )
  return new Map(rows.map(({ table, count }) => [table, Number(count)]))
}

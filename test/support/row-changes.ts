import type pg from 'pg'

/** How many rows of a table a transaction has inserted and updated, and how many of these without changing an index. */
export interface RowChanges {
  inserted: number
  updated: number
  hot: number
}

/** Returns what a transaction has changed so far in the tables, in the order of their names. */
export async function changesOf(tx: pg.PoolClient, tables: readonly string[]): Promise<RowChanges[]> {
  const { rows } = await tx.query<RowChanges>(
    `select pg_stat_get_xact_tuples_inserted(oid)::int as inserted,
            pg_stat_get_xact_tuples_updated(oid)::int as updated,
            pg_stat_get_xact_tuples_hot_updated(oid)::int as hot
       from pg_class where relnamespace = 'public'::regnamespace and relname = any ($1) order by relname`,
    [tables],
  )
  return rows
}

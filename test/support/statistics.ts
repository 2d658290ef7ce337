import type pg from 'pg'
import type { Queryable } from '../../src/database/database.ts'
import { analyzeTables } from '../../src/database/table-copy.ts'
import { listTables } from './schema.ts'

/** How many rows PostgreSQL has read from each table without an index so far. */
export async function readRowsByTable(db: Queryable): Promise<Map<string, number>> {
  await db.query('select pg_stat_force_next_flush()')
  const { rows } = await db.query<{ table: string; count: string }>(
    `select relname as table, coalesce(seq_tup_read, 0) as count from pg_stat_user_tables`,
  )
  return new Map(rows.map(({ table, count }) => [table, Number(count)]))
}

/** Returns how often the transaction has read each table so far, with and without an index. */
export async function readsByTable(tx: Queryable): Promise<Map<string, number>> {
  const { rows } = await tx.query<{ table: string; reads: number }>(
    `select relname as table, (coalesce(seq_scan, 0) + coalesce(idx_scan, 0))::int as reads
       from pg_stat_xact_user_tables`,
  )
  return new Map(rows.map(({ table, reads }) => [table, reads]))
}

/**
 * Gives the planner new statistics: without them it plans as for the empty tables of a minute ago. Most of `analyze` alone
 * would be PostgreSQL's own tables.
 */
export async function analyze(db: Queryable): Promise<void> {
  await analyzeTables(db)
}

/** Returns the tables for which the planner has no statistics. */
export async function listUnknownTables(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>(
    `select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and reltuples < 0 order by relname`,
  )
  return rows.map(({ name }) => name)
}

/** A database that runs no statement: it finds no rows, and adds the lines of each statement's plan to `plan`. */
export function explaining(db: Queryable, plan: string[]): Queryable {
  const query = async ({ text, values }: pg.QueryConfig) => {
    const { rows } = await db.query<{ 'QUERY PLAN': string }>(`explain ${text}`, values)
    plan.push(...rows.map((row) => row['QUERY PLAN']))
    return { rows: [] }
  }
  return { query } as unknown as Queryable
}

/** Lets this many connections of a pool run a statement at once. */
export async function useManyConnections(db: pg.Pool, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => db.query('select 1')))
}

/** Removes dead rows, and gives the planner new statistics, of svc's own tables only, as `analyze`. */
export async function vacuum(db: Queryable): Promise<void> {
  await db.query(`vacuum analyze ${(await listTables(db)).join(', ')}`)
}

/** Lets PostgreSQL count what a connection has done so far. */
export async function flushStatistics(db: Pick<pg.Client, 'query'>): Promise<void> {
  await db.query('select pg_stat_force_next_flush()')
}

/** Counts the rows and blocks of tables and indexes that PostgreSQL has read so far. */
export async function countReads(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ reads: number }>(
    `select sum(coalesce(b.heap_blks_read, 0) + coalesce(b.heap_blks_hit, 0)
              + coalesce(b.idx_blks_read, 0) + coalesce(b.idx_blks_hit, 0)
              + coalesce(r.seq_tup_read, 0) + coalesce(r.idx_tup_fetch, 0))::integer as reads
       from pg_statio_user_tables b join pg_stat_user_tables r using (relid)`,
  )
  return rows[0]?.reads ?? Number.NaN
}

/** Runs `work` on a connection that counts the calls of functions, and returns how often one was called. */
export async function countCalls(
  db: pg.Pool,
  name: string,
  work: (client: pg.PoolClient) => Promise<void>,
): Promise<number> {
  const client = await db.connect()
  try {
    await client.query(`set track_functions = 'pl'`)
    await work(client)
    await flushStatistics(client)
    const counting = 'select calls::int from pg_stat_user_functions where funcname = $1'
    return (await client.query<{ calls: number }>(counting, [name])).rows[0]?.calls ?? 0
  } finally {
    await client.query('reset track_functions')
    client.release()
  }
}

import type { Queryable } from './database.ts'

/**
 * Returns a function that deletes expired rows of a table, at most `limit` in one statement, and returns how many.
 * `key` is the primary key. It skips rows that others have locked: the next sweep deletes them.
 */
export function sweepOf(
  table: string,
  key: string,
  isExpired = 'expires_at < now()',
): (db: Queryable, limit: number) => Promise<number> {
  const text = `delete from ${table} where (${key}) in (
    select ${key} from ${table} where ${isExpired} limit $1 for update skip locked)`
  return async (db, limit) => (await db.query(text, [limit])).rowCount ?? 0
}

/**
 * Returns an SQL expression for the `with` of an insertion that anyone can cause. It deletes the oldest rows of the
 * network, so that `kept` rows remain before the insertion. `network` is the placeholder of the network's value.
 */
export function surplusOf(table: string, key: string, network: `$${number}`, kept: number): string {
  return `surplus as (
    delete from ${table} where ${key} in (
      select ${key} from ${table} where network = ${network} order by expires_at desc offset ${kept}
         for update skip locked))`
}

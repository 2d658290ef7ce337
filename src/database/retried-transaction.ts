import type pg from 'pg'
import type { Principal } from '../domain/principal.ts'
import { transaction } from './database.ts'
import { isDeadlock } from './errors.ts'

/**
 * Runs `work` in a transaction like `transaction`, at most three times: again when PostgreSQL ended it because it and
 * another transaction waited for each other.
 */
export async function retriedTransaction<T>(
  pool: pg.Pool,
  work: (tx: pg.PoolClient) => Promise<T>,
  by?: Principal,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await transaction(pool, work, by)
    } catch (error) {
      if (attempt === 3 || !isDeadlock(error)) throw error
    }
  }
}

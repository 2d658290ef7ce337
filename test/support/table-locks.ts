import type pg from 'pg'
import { vi } from 'vitest'
import type { Queryable } from '../../src/database/database.ts'
import { openTransaction } from './locks.ts'

/** How a table is locked: see the locks of tables in the manual of PostgreSQL. */
export type LockMode = 'row exclusive' | 'share update exclusive' | 'share' | 'exclusive' | 'access exclusive'

/** Locks tables until the end of the transaction. */
export async function lockTables(
  tx: Queryable,
  tables: string | string[],
  mode: LockMode = 'access exclusive',
): Promise<void> {
  await tx.query(`lock table ${[tables].flat().join(', ')} in ${mode} mode`)
}

/** Runs `work` while another transaction holds a lock on tables. */
export async function whileLocked<T>(
  db: pg.Pool,
  tables: string | string[],
  work: (tx: pg.PoolClient) => Promise<T>,
  mode?: LockMode,
): Promise<T> {
  const { tx, rollback } = await openTransaction(db)
  try {
    await lockTables(tx, tables, mode)
    return await work(tx)
  } finally {
    await rollback()
  }
}

/** Takes an advisory lock until the end of the transaction. */
export async function takeAdvisoryLock(tx: Queryable, key: number): Promise<void> {
  await tx.query('select pg_advisory_xact_lock($1)', [key])
}

/** Makes each statement of the transaction fail that waits for a lock for this long. */
export async function limitLockWaits(tx: Queryable, milliseconds: number): Promise<void> {
  await tx.query(`select set_config('lock_timeout', $1, true)`, [`${milliseconds}ms`])
}

/** Reads a table, so that the transaction holds the weakest lock of it. */
export async function touchTable(tx: Queryable, table: string): Promise<void> {
  await tx.query(`select from ${table} limit 1`)
}

/** Waits until a statement waits for the lock of a table. */
export async function untilTableIsAwaited(db: Queryable, table: string): Promise<void> {
  await vi.waitUntil(async () => {
    const { rowCount } = await db.query(
      'select from pg_locks where not granted and relation = $1::regclass',
      [table],
    )
    return rowCount === 1
  }, 60_000)
}

import type pg from 'pg'
import { vi } from 'vitest'
import type { Queryable } from '../../src/database/database.ts'
import { conditionOf, type Values } from './rows.ts'

/** A transaction that a test keeps open, with the locks that its statements have taken. */
export interface OpenTransaction {
  tx: pg.PoolClient
  commit: () => Promise<void>
  rollback: () => Promise<void>
}

/** Begins a transaction on a connection for itself. Its end comes once: a rollback after a commit does nothing. */
export async function openTransaction(db: pg.Pool): Promise<OpenTransaction> {
  const tx = await db.connect()
  await tx.query('begin')
  let isOpen = true
  const end = (statement: 'commit' | 'rollback') => async () => {
    if (!isOpen) return
    isOpen = false
    await tx.query(statement)
    tx.release()
  }
  return { tx, commit: end('commit'), rollback: end('rollback') }
}

/** Locks the row of a table that has this id, as a change of it does. */
export async function lockRow(tx: pg.PoolClient, table: string, { id }: { id: string }): Promise<void> {
  await tx.query(`select from "${table}" where id = $1 for no key update`, [id])
}

/** Locks the row of a table that has this id, so that no row can refer to it meanwhile. */
export async function lockWholeRow(tx: pg.PoolClient, table: string, { id }: { id: string }): Promise<void> {
  await tx.query(`select from "${table}" where id = $1 for update`, [id])
}

/** Locks the rows of a table that have these values. */
export async function lockRows(
  tx: Queryable,
  table: string,
  where: Values,
  strength: 'update' | 'share' = 'update',
): Promise<void> {
  const { condition, values } = conditionOf(where)
  await tx.query(`select from "${table}" where ${condition} for ${strength}`, values)
}

/** Counts the rows of a table that have these values and no lock. */
export async function countUnlocked(db: Queryable, table: string, where: Values): Promise<number> {
  const { condition, values } = conditionOf(where)
  const counting = `select from "${table}" where ${condition} for update skip locked`
  return (await db.query(counting, values)).rowCount ?? 0
}

/** Lets the transaction not look for a deadlock for a minute, so that the others look before. */
export async function delayDeadlockCheck(tx: Queryable): Promise<void> {
  await tx.query(`set local deadlock_timeout = '1min'`)
}

/** Counts the statements in this database that wait for a lock, or those of them that contain a text. */
export async function countWaiting(db: Queryable, text = ''): Promise<number> {
  // A transaction sees the activity of its first look, until it clears it.
  await db.query('select pg_stat_clear_snapshot()')
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock' and strpos(query, $1) > 0`,
    [text],
  )
  return rows[0]?.count ?? 0
}

/** Waits until this many statements wait for a lock: all that contain a text, or just all. */
export async function untilWaiting(db: Queryable, count = 1, text = ''): Promise<void> {
  await vi.waitFor(async () => {
    const waiting = await countWaiting(db, text)
    if (waiting !== count) throw new Error(`${waiting} statements wait for a lock, not ${count}`)
  }, 60_000)
}

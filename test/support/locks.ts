import type pg from 'pg'
import type { Queryable } from '../../src/database/database.ts'
import { conditionOf, type Values } from './rows.ts'
import { untilTrue } from './until.ts'

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

/** Sets when new connections to the database look for a deadlock. Null is the setting of the server. */
export async function setDeadlockTimeout(db: Queryable, after: string | null): Promise<void> {
  const value = after === null ? 'default' : `''${after}''`
  await db.query(
    `do $$ begin execute format('alter database %I set deadlock_timeout to ${value}', current_database()); end $$`,
  )
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
  let waiting = 0
  await untilTrue(
    async () => {
      waiting = await countWaiting(db, text)
      return waiting === count
    },
    () => `${waiting} statements wait for a lock, not ${count}`,
  )
}

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
  const isAwaited = async () => {
    const { rowCount } = await db.query(
      'select from pg_locks where not granted and relation = $1::regclass',
      [table],
    )
    return rowCount === 1
  }
  await untilTrue(isAwaited, () => `nothing waits for the lock of ${table}`)
}

/** Locks all rows of a table until the end of the transaction. */
export async function lockAllRows(tx: Queryable, table: string): Promise<void> {
  await tx.query(`select from "${table}" for update`)
}

/** Whether an advisory lock may be shared now. */
export async function canShareLock(tx: Queryable, key: number): Promise<boolean> {
  const { rows } = await tx.query<{ can: boolean }>('select pg_try_advisory_xact_lock_shared($1) as can', [
    key,
  ])
  return rows[0]?.can ?? false
}

/** Runs `work` while every statement about a table fails. */
export async function whileTableIsGone(
  db: Queryable,
  table: string,
  work: () => Promise<unknown>,
): Promise<void> {
  await db.query(`alter table "${table}" rename to gone`)
  try {
    await work()
  } finally {
    await db.query(`alter table gone rename to "${table}"`)
  }
}

/** Whether a statement copies a table into the database now. */
export async function isLoading(db: Queryable, table: string): Promise<boolean> {
  const { rows } = await db.query(
    `select from pg_stat_activity
      where datname = current_database() and starts_with(query, 'copy "' || $1 || '"') and state = 'active'`,
    [table],
  )
  return rows.length > 0
}

/** Ends the statements that wait for a lock, as a timeout does. Returns how many. */
export async function cancelWaiting(db: Queryable): Promise<number> {
  // A transaction sees the activity of its first look, until it clears it.
  await db.query('select pg_stat_clear_snapshot()')
  const { rows } = await db.query(
    `select pg_cancel_backend(pid) from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`,
  )
  return rows.length
}

/** Lists the connections that wait for a lock of a table: all, or those whose statement matches. */
export async function waitingFor(db: Queryable, table: string, statement = /^/): Promise<number[]> {
  const { rows } = await db.query<{ pid: number }>(
    `select l.pid from pg_locks l join pg_stat_activity a on a.pid = l.pid
      where l.relation = $1::regclass and not l.granted and a.query ~ $2`,
    [table, statement.source],
  )
  return rows.map(({ pid }) => pid)
}

/** Ends connections, with the statements that run there. */
export async function endConnections(db: Queryable, pids: number[]): Promise<void> {
  await db.query('select pg_terminate_backend(pid) from unnest($1::int[]) pid', [pids])
}

/** Counts the advisory locks that are held in the database. */
export async function countAdvisoryLocks(db: Queryable): Promise<number> {
  const { rows } = await db.query(
    `select from pg_locks join pg_database d on d.oid = database
      where locktype = 'advisory' and d.datname = current_database()`,
  )
  return rows.length
}

/** Counts the other connections whose latest statement matches. */
export async function countStatements(db: Queryable, pattern: RegExp): Promise<number> {
  const { rows } = await db.query(
    `select from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() and query ~ $1`,
    [pattern.source],
  )
  return rows.length
}

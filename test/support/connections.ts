import type pg from 'pg'
import type { Queryable } from '../../src/database/database.ts'

/** Runs a statement that works on any connection. Returns 1. */
export async function ping(db: Queryable): Promise<number | undefined> {
  return (await db.query<{ one: number }>('select 1 as one')).rows[0]?.one
}

/** Runs a statement that works on any connection, for which the client waits this long instead of its own limit. */
export async function pingWithin(db: Queryable, milliseconds: number): Promise<void> {
  await db.query({ text: 'select 1', query_timeout: milliseconds } as pg.QueryConfig)
}

/** Runs a statement that fails with "division by zero". */
export async function divideByZero(db: Queryable): Promise<void> {
  await db.query('select 1/0')
}

/** Returns the process of a connection. */
export async function processOf(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ pid: number }>('select pg_backend_pid() as pid')
  return rows[0]?.pid ?? 0
}

/** Ends the connection that the statement runs on. */
export async function endOwnConnection(db: Queryable): Promise<void> {
  await db.query('select pg_terminate_backend(pg_backend_pid())')
}

/** Ends the connection of a process, and waits 5 seconds for its end. */
export async function endConnection(db: Queryable, pid: number): Promise<void> {
  await db.query('select pg_terminate_backend($1, 5000)', [pid])
}

/** Returns how a connection caches plans. */
export async function planCacheModeOf(db: Queryable): Promise<string | undefined> {
  return (await db.query<{ plan_cache_mode: string }>('show plan_cache_mode')).rows[0]?.plan_cache_mode
}

/** Returns the time limits of a connection: of a statement, of an idle transaction, and of waiting for a lock. */
export async function timeLimitsOf(db: Queryable): Promise<string[]> {
  const { rows } = await db.query<{ limits: string[] }>(
    `select array[current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'),
                  current_setting('lock_timeout')] as limits`,
  )
  return rows[0]?.limits ?? []
}

/** Resets the settings of a connection, as PgBouncer does before it lends the connection to another client. */
export async function resetSettings(db: Queryable): Promise<void> {
  await db.query('reset all')
}

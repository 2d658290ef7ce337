import pg from 'pg'
import type { Queryable } from './database.ts'
import { type LockMode, lockModes, type MigrationEffects } from './migration-effects.ts'

/** A lock of a table that exists. */
export interface TableLock {
  table: string
  mode: LockMode
}

/**
 * How long requests may wait for a migration that waits for its locks, in milliseconds. It is much shorter than
 * PostgreSQL's `deadlock_timeout`. So if a request and a migration wait for each other, the migration gives up before
 * PostgreSQL looks for a deadlock, and the request never fails.
 */
export const lockBudgetMilliseconds = 300

/**
 * Returns the locks that migrations need on tables that exist, in the order of the tables' creation: a table comes after
 * those that it refers to, as in statements that follow the references.
 */
export async function findTableLocks(
  db: Queryable,
  effects: readonly MigrationEffects[],
): Promise<TableLock[]> {
  const asked = effects.flatMap(({ locks, dropsReferences }) =>
    [...locks].map(([name, mode]) => ({ name, rank: lockModes.indexOf(mode), dropsReferences })),
  )
  const { rows } = await db.query<{ table: string; rank: number }>(
    `with locked as (
       select coalesce(i.indrelid, c.oid) as oid, asked.rank, asked."dropsReferences"
         from json_to_recordset($1) as asked(name text, rank int, "dropsReferences" boolean)
         join pg_class c on c.relname = asked.name and c.relkind in ('r', 'p', 'i') and pg_table_is_visible(c.oid)
         left join pg_index i on i.indexrelid = c.oid
     ), with_references as (
       select oid, rank from locked
       union all
       select case locked.oid when k.conrelid then k.confrelid else k.conrelid end, locked.rank
         from locked join pg_constraint k on k.contype = 'f' and locked.oid in (k.conrelid, k.confrelid)
        where locked."dropsReferences" and locked.rank = $2
     )
     select c.relname as "table", max(rank) as rank
       from with_references join pg_class c using (oid) group by c.oid, c.relname order by c.oid`,
    [JSON.stringify(asked), lockModes.indexOf('access exclusive')],
  )
  return rows.map(({ table, rank }) => ({ table, mode: lockModes[rank] as LockMode }))
}

/**
 * Takes the locks for the running transaction. Throws PostgreSQL's `lock_not_available` when others hold one for too
 * long. After that, statements of the transaction wait as briefly for locked rows.
 */
export async function takeTableLocks(client: pg.Client, locks: readonly TableLock[]): Promise<void> {
  const lock = (table: string, mode: LockMode) =>
    client.query(`lock table ${pg.escapeIdentifier(table)} in ${mode} mode`)
  const { rows } = await client.query<{ milliseconds: number }>(
    `select setting::int as milliseconds from pg_settings where name = 'deadlock_timeout'`,
  )
  const deadlockMilliseconds = rows[0]?.milliseconds ?? 1000
  // PostgreSQL cancels an autovacuum that is in the way, but only after `deadlock_timeout`. Requests do not wait behind
  // this mode, so it may wait longer. When all autovacuums have ended, the strong modes come within the budget.
  await setLockTimeout(client, 2.5 * deadlockMilliseconds)
  for (const { table, mode } of locks)
    if (mode !== 'row exclusive') await lock(table, 'share update exclusive')
  const budget = Math.min(lockBudgetMilliseconds, deadlockMilliseconds / 2)
  const end = performance.now() + budget
  for (const { table, mode } of locks) {
    // The first locks are held while the last one waits, so the time is limited for all of them together.
    await setLockTimeout(client, end - performance.now())
    await lock(table, mode)
  }
  await setLockTimeout(client, budget)
}

async function setLockTimeout(client: pg.Client, milliseconds: number): Promise<void> {
  // Zero would mean no limit.
  await client.query(`set local lock_timeout = ${Math.max(1, Math.round(milliseconds))}`)
}

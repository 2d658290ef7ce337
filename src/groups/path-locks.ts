import type pg from 'pg'
import { advisoryLocks } from '../database/database.ts'

/** SQL: the number of a group in the key of an advisory lock. Groups with the same number only wait for each other. */
const groupKey = (groupId: string) => `(${groupId} % 2147483647)::int`

/**
 * Returns SQL that keeps the paths of the repositories of `condition` until the transaction ends. Send it before the
 * statement that reads a path, and before the transaction locks a row: a rename waits for it and then locks rows.
 * Without it, a rename could mark documents as outdated before this transaction saves one with the old path.
 */
export function sharePathLock(condition: string): string {
  return `select pg_advisory_xact_lock_shared(${advisoryLocks.paths}, key)
            from (select distinct ${groupKey('group_id')} as key from repository where ${condition} order by key) k`
}

/** Keeps the path of a group until the transaction ends. The same rules apply as for `sharePathLock`. */
export async function keepGroupPath(tx: pg.PoolClient, groupId: string): Promise<void> {
  await lock(tx, 'pg_advisory_xact_lock_shared', advisoryLocks.paths, groupId)
}

/** Waits for all transactions that keep a path of the group, and for deletions in the group. Lock nothing before it. */
export async function changePaths(tx: pg.PoolClient, groupId: string): Promise<void> {
  await lockTenancy(tx, groupId)
  await lock(tx, 'pg_advisory_xact_lock', advisoryLocks.paths, groupId)
}

/** Keeps renames and deletions in the group waiting until the transaction ends. Lock nothing before it. */
export async function lockTenancy(tx: pg.PoolClient, groupId: string): Promise<void> {
  await lock(tx, 'pg_advisory_xact_lock', advisoryLocks.tenancy, groupId)
}

/** Keeps renames in the group, and its deletion, waiting until the transaction ends. Lock nothing before it. */
export async function shareTenancy(tx: pg.PoolClient, groupId: string): Promise<void> {
  await lock(tx, 'pg_advisory_xact_lock_shared', advisoryLocks.tenancy, groupId)
}

async function lock(tx: pg.PoolClient, call: string, kind: number, groupId: string): Promise<void> {
  await tx.query(`select ${call}(${kind}, ${groupKey('$1::bigint')})`, [groupId])
}

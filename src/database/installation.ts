import pg from 'pg'
import { type Queryable, transaction } from './database.ts'

/** Returns the id of this database: a UUID that the migration created. */
export async function findDatabaseId(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ id: string }>('select id from installation')
  const [row] = rows
  if (!row) throw new Error('The database has lost its id: the table installation must have one row.')
  return row.id
}

/** Runs work that removes archives. Throws while a backup runs, because the backup still reads its archives. */
export async function unlessBackupRuns<T>(
  pool: pg.Pool,
  work: (tx: pg.PoolClient) => Promise<T>,
): Promise<T> {
  return transaction(pool, async (tx) => {
    try {
      // It conflicts with the lock of `openSnapshot`. Unlike an advisory lock of a session, it also works behind PgBouncer.
      await tx.query('lock table installation in row exclusive mode nowait')
    } catch (error) {
      if (!(error instanceof pg.DatabaseError) || error.code !== '55P03') throw error
      throw new Error(
        'A backup is running. Try again when it has ended: archives cannot be removed until then.',
      )
    }
    return work(tx)
  })
}

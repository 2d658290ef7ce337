import type { Queryable } from '../../src/database/database.ts'

/** When a work of maintenance has ended last. Undefined: never. */
export async function lastWork(db: Queryable, work: string): Promise<Date | undefined> {
  const { rows } = await db.query<{ at: Date }>('select ended_at as at from maintenance where work = $1', [
    work,
  ])
  return rows[0]?.at
}

/** Records that a work of maintenance has ended. */
export async function noteWork(db: Queryable, work: string, at: Date): Promise<void> {
  await db.query('insert into maintenance (work, ended_at) values ($1, $2)', [work, at])
}

/** Records a migration as applied, whose statements were never run. */
export async function noteMigration(db: Queryable, name: string): Promise<void> {
  await db.query(`insert into applied_migration (name, checksum) values ($1, 'x')`, [name])
}

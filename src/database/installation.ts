import type { Queryable } from './database.ts'

/** Returns the id of this database: a UUID, made by the migration. */
export async function findDatabaseId(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ id: string }>('select id from installation')
  const [row] = rows
  if (!row) throw new Error('The database has lost its id: the table installation must have one row.')
  return row.id
}

import type { Queryable } from '../../src/database/database.ts'

/** Lets an applied migration have had another text. */
export async function setMigrationChecksum(db: Queryable, name: string, checksum: string): Promise<void> {
  await db.query('update applied_migration set checksum = $2 where name = $1', [name, checksum])
}

import type { Queryable } from '../../src/database/database.ts'

/** Lets the interval of a source be over. */
export async function passSourceIntervals(db: Queryable, id: number): Promise<void> {
  await db.query('update source set next_look_at = now() where id = $1', [id])
}

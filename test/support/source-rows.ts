import type { Queryable } from '../../src/database/database.ts'

/** Lets the interval of a source be over. */
export async function passSourceIntervals(db: Queryable, id: number): Promise<void> {
  await db.query('update source set next_look_at = now() where id = $1', [id])
}

/** Moves the start of the failures of a source back, and makes it due. */
export async function ageFailure(db: Queryable, id: string, interval: string): Promise<void> {
  await db.query(
    'update source set failing_since = now() - $2::interval, next_look_at = now() where id = $1',
    [id, interval],
  )
}

/** Returns the minutes until a source is read again. */
export async function minutesUntilLook(db: Queryable, id: string): Promise<number> {
  const { rows } = await db.query<{ minutes: number }>(
    'select extract(epoch from next_look_at - now())::float8 / 60 as minutes from source where id = $1',
    [id],
  )
  return rows[0]?.minutes ?? Number.NaN
}

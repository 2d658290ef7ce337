import type { Queryable } from '../../src/database/database.ts'

/** Lets seconds pass since devices asked and polled. */
export async function ageDevices(db: Queryable, seconds: number): Promise<void> {
  await db.query(
    `update device_request
        set created_at = created_at - make_interval(secs => $1), expires_at = expires_at - make_interval(secs => $1),
            polled_at = polled_at - make_interval(secs => $1)`,
    [seconds],
  )
}

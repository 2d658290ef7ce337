import type { Queryable } from '../../src/database/database.ts'

/** Lets all keys of ID tokens be older: since they sign, and since they were retired. */
export async function ageKeys(db: Queryable, by: string): Promise<void> {
  await db.query(
    'update openid_key set activated_at = activated_at - $1::interval, retired_at = retired_at - $1::interval',
    [by],
  )
}

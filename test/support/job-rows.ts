import type { Queryable } from '../../src/database/database.ts'

/** A job as the database has it. */
export interface StoredJob {
  name: string
  data: unknown
  attempts: number
  lastError: string | null
  hasFailed: boolean
}

/** Lists the jobs that wait or have failed, of one name or of all. */
export async function listStoredJobs(db: Queryable, name: string | null = null): Promise<StoredJob[]> {
  const { rows } = await db.query<StoredJob>(
    `select name, data, attempts, last_error as "lastError", failed_at is not null as "hasFailed"
       from job where $1::text is null or name = $1 order by id`,
    [name],
  )
  return rows
}

/** Lets all jobs that wait be due. */
export async function makeJobsDue(db: Queryable): Promise<void> {
  await db.query('update job set run_at = now() where failed_at is null')
}

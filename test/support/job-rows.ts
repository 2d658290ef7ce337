import type { Queryable } from '../../src/database/database.ts'

/** A job as the database has it. */
export interface StoredJob {
  name: string
  key: string | null
  data: unknown
  isRunning: boolean
  attempts: number
  lastError: string | null
  hasFailed: boolean
  /** In how many seconds it may run, or run again. */
  dueSeconds: number
}

/** Lists the jobs that wait or have failed, of one name or of all. */
export async function listStoredJobs(db: Queryable, name: string | null = null): Promise<StoredJob[]> {
  const { rows } = await db.query<StoredJob>(
    `select name, key, data, is_running as "isRunning", attempts, last_error as "lastError",
            failed_at is not null as "hasFailed", extract(epoch from run_at - now())::float8 as "dueSeconds"
       from job where $1::text is null or name = $1 order by id`,
    [name],
  )
  return rows
}

/** Lets all jobs that wait be due. */
export async function makeJobsDue(db: Queryable): Promise<void> {
  await db.query('update job set run_at = now() where failed_at is null')
}

/** Adds a job that has not begun, or that has failed days ago. */
export async function aStoredJob(
  db: Queryable,
  name: string,
  { key = null as string | null, failedDaysAgo = null as number | null, isRunning = false } = {},
): Promise<void> {
  await db.query(
    `insert into job (name, key, failed_at, is_running) values ($1, $2, now() - make_interval(days => $3), $4)`,
    [name, key, failedDaysAgo, isRunning],
  )
}

/** Adds many jobs with about 10 kB of data each. */
export async function addLargeJobs(db: Queryable, name: string, count: number): Promise<void> {
  await db.query(
    `insert into job (name, data) select $1, to_jsonb(repeat(md5(i::text), 300)) from generate_series(1, $2::int) as i`,
    [name, count],
  )
}

/** Lets a process have begun jobs, and say no more about them: all, or those with a key. */
export async function beginJobs(db: Queryable, key: string | null = null): Promise<void> {
  await db.query('update job set is_running = true where $1::text is null or key = $1', [key])
}

/** Lets all jobs have begun this many times. */
export async function setAttempts(db: Queryable, attempts: number): Promise<void> {
  await db.query('update job set attempts = $1', [attempts])
}

/** Lets the turns of all jobs that run end in seconds. */
export async function setTurns(db: Queryable, seconds: number): Promise<void> {
  await db.query('update job set run_at = now() + make_interval(secs => $1)', [seconds])
}

/** A kind of jobs that runs at intervals, as the database has it. */
export interface StoredJobKind {
  name: string
  /** In how many seconds the next one is due. */
  nextSeconds: number | null
  /** When the latest one succeeded. */
  succeededAt: Date | null
}

/** Lists the kinds of jobs in the order of their names. */
export async function listJobKinds(db: Queryable): Promise<StoredJobKind[]> {
  const { rows } = await db.query<StoredJobKind>(
    `select name, extract(epoch from next_at - now())::float8 as "nextSeconds", succeeded_at as "succeededAt"
       from job_kind order by name`,
  )
  return rows
}

/** Adds a kind of jobs. */
export async function aJobKind(
  db: Queryable,
  name: string,
  { nextSeconds = null as number | null, succeededAt = null as Date | null } = {},
): Promise<void> {
  await db.query(
    'insert into job_kind (name, next_at, succeeded_at) values ($1, now() + make_interval(secs => $2), $3)',
    [name, nextSeconds, succeededAt],
  )
}

/** Lets the next job of a kind be due in seconds. */
export async function setNextJob(db: Queryable, name: string, seconds = 0): Promise<void> {
  await db.query('update job_kind set next_at = now() + make_interval(secs => $2) where name = $1', [
    name,
    seconds,
  ])
}

/** Adds a job that has failed now. */
export async function aFailedJob(
  db: Queryable,
  name: string,
  lastError: string | null = null,
): Promise<void> {
  await db.query(`insert into job (name, key, failed_at, last_error) values ($1, 'failed', now(), $2)`, [
    name,
    lastError,
  ])
}

/** Forgets that jobs of these kinds ever succeeded, and lets each of them run now. */
export async function runAgain(db: Queryable, names: string[]): Promise<void> {
  await db.query('update job_kind set succeeded_at = null where name = any($1)', [names])
  await db.query(
    `insert into job (name, key) select name, '' from unnest($1::text[]) as name on conflict do nothing`,
    [names],
  )
  await db.query('update job set run_at = now() where name = any($1)', [names])
}

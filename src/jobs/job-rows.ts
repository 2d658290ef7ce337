import { type Queryable, sweepOf } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import { readRowId } from '../domain/row-id.ts'

/** How long a process keeps a job without extending its lease. */
export const leaseSeconds = 30
/** The longest delay between two attempts. */
const maxDelaySeconds = 6 * 3600
/** How long jobs stay visible after their last attempt failed. */
const keepFailedDays = 14

/** A job that this process took. `attempts` identifies the lease. */
export interface ClaimedJob {
  id: string
  name: string
  data: unknown
  attempts: number
}

/** A job to queue. */
export interface NewJob {
  name: string
  key: string | null
  crowd: string | null
  data: unknown
}

/** Queues a job that may run after the delay. */
export async function insertJob(
  db: Queryable,
  { name, key, crowd, data }: NewJob,
  delaySeconds: number,
): Promise<void> {
  await db.query(
    `insert into job (name, key, crowd, data, run_at) values ($1, $2, $3, $4, now() + $5 * interval '1 second')`,
    [name, key, crowd, JSON.stringify(data ?? {}), delaySeconds],
  )
}

/** Queues jobs of one name without a key, in their order. */
export async function insertJobs(db: Queryable, name: string, all: readonly unknown[]): Promise<void> {
  await db.query(
    `insert into job (name, data)
     select $1, w.data from jsonb_array_elements($2) with ordinality as w (data, place) order by w.place`,
    [name, JSON.stringify(all)],
  )
}

/** Queues jobs in their order. Leaves out those whose key an unfinished job of any of these names has. */
export async function insertNewJobs(db: Queryable, jobs: readonly NewJob[]): Promise<void> {
  await db.query(
    `insert into job (name, key, crowd, data)
     select w.name, w.key, w.crowd, w.data
       from unnest($1::text[], $2::text[], $3::text[], $4::jsonb[]) with ordinality as w (name, key, crowd, data, place)
      where not exists (select from job j where j.name = any ($1) and j.key = w.key and j.failed_at is null)
      order by w.place`,
    [
      jobs.map(({ name }) => name),
      jobs.map(({ key }) => key),
      jobs.map(({ crowd }) => crowd),
      jobs.map(({ data }) => JSON.stringify(data ?? {})),
    ],
  )
}

/** Queues a job unless one with its name and key waits and may run now. */
export async function insertJobUnlessDue(db: Queryable, { name, key, crowd, data }: NewJob): Promise<void> {
  await db.query(
    `insert into job (name, key, crowd, data)
     select $1, $2, $4, $3::jsonb
      where not exists (select from job j
                         where j.name = $1 and j.key = $2 and j.failed_at is null and not j.is_running and j.run_at <= now())`,
    [name, key, JSON.stringify(data ?? {}), crowd],
  )
}

/** Stores new schedules. Runs a job earlier when its interval became shorter. */
export async function noteSchedules(db: Queryable, schedules: ReadonlyMap<string, number>): Promise<void> {
  await db.query(
    `insert into job_kind as k (name, next_at)
     select name, now() + seconds * random() * interval '1 second' from unnest($1::text[], $2::int[]) as s (name, seconds)
      order by name
     on conflict (name) do update set next_at = excluded.next_at
      where k.next_at is null or k.next_at > now() + (select s.seconds * interval '1.1 second'
                                                        from unnest($1::text[], $2::int[]) as s (name, seconds)
                                                       where s.name = k.name)`,
    [[...schedules.keys()], [...schedules.values()]],
  )
}

/** Enqueues the scheduled jobs that are due. When many processes call it at once, each due job is enqueued once. */
export async function enqueueScheduled(db: Queryable, schedules: ReadonlyMap<string, number>): Promise<void> {
  await db.query(
    `with due as (
       select k.name, s.seconds
         from job_kind k join unnest($1::text[], $2::int[]) as s (name, seconds) using (name)
        where k.next_at <= now()
          for update of k skip locked
     ), moved as (
       update job_kind k set next_at = now() + due.seconds * (0.95 + 0.1 * random()) * interval '1 second'
         from due where k.name = due.name
       returning k.name
     )
     insert into job (name, key)
     select name, '' from moved
      where not exists (select from job j where j.name = moved.name and j.key = '' and j.failed_at is null)`,
    [[...schedules.keys()], [...schedules.values()]],
  )
}

/** SQL: the first due job of each name in the array that the crowds in `crowded` let run. */
function selectDue(names: string): string {
  return `select d.id
            from unnest(${names}::text[]) as n (name)
           cross join lateral (
             select j.id from job j
              where j.name = n.name and j.failed_at is null and j.run_at <= now()
                and not exists (select from job r
                                 where r.name = j.name and r.key = j.key and r.is_running and r.id <> j.id)
                and (j.crowd is null
                     or not exists (select from crowded c where c.name = j.name and c.crowd = j.crowd))
              order by j.run_at, j.id limit 1
                for update skip locked
           ) as d`
}

/** The jobs that a process can take. */
export interface FreeSlots {
  /** The names of jobs that share slots, and how many of these slots are free. */
  names: readonly string[]
  limit: number
  /** The names of jobs that have own slots. */
  ownNames: readonly string[]
  /** How many jobs of one crowd run at once, by the names of jobs that have crowds. */
  crowds: ReadonlyMap<string, number>
}

/**
 * Takes at most one due job of each name, and leases them. It also takes jobs whose lease ended. Other waiting jobs with
 * the same name and key as a taken job are deleted. Two processes at the same moment can take one job of a crowd too many.
 * Throws a violation of `job_runs_once` when another process was
 * faster: try again.
 */
export async function claimJobs(
  db: Queryable,
  { names, limit, ownNames, crowds }: FreeSlots,
): Promise<ClaimedJob[]> {
  const { rows } = await db.query<ClaimedJob>(
    `with crowded as materialized (
       select r.name, r.crowd
         from job r join unnest($5::text[], $6::int[]) as b (name, at_once) on b.name = r.name
        where r.is_running and r.run_at > now() and r.crowd is not null
        group by r.name, r.crowd, b.at_once having count(*) >= b.at_once
     ), due as (
       select * from (${selectDue('$1')} limit $3) shared union all select * from (${selectDue('$4')}) own
     ), claimed as (
       update job j set is_running = true, attempts = j.attempts + 1, run_at = now() + $2 * interval '1 second'
         from due where j.id = due.id
       returning j.id, j.name, j.key, j.data, j.attempts
     ), dropped as (
       delete from job where id in (
         select w.id from job w join claimed c on w.name = c.name and w.key = c.key and w.id <> c.id
          where not w.is_running and w.failed_at is null and w.run_at <= now()
            for update of w skip locked)
     )
     select id, name, data, attempts from claimed`,
    [names, leaseSeconds, limit, ownNames, [...crowds.keys()], [...crowds.values()]],
  )
  return rows
}

/** Extends the leases. Returns the ids of the jobs that this process still holds. */
export async function extendLeases(db: Queryable, jobs: readonly ClaimedJob[]): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `update job j set run_at = now() + $3 * interval '1 second'
       from unnest($1::bigint[], $2::int[]) as mine (id, attempts)
      where j.id = mine.id and j.attempts = mine.attempts and j.is_running
     returning j.id`,
    [jobs.map(({ id }) => id), jobs.map(({ attempts }) => attempts), leaseSeconds],
  )
  return rows.map(({ id }) => id)
}

/** Removes a completed job, and stores the time of the success. */
export async function completeJob(db: Queryable, { id, attempts }: ClaimedJob): Promise<void> {
  await db.query(
    `with done as (
       delete from job where id = $1 and attempts = $2 and is_running returning name
     )
     insert into job_kind as k (name, succeeded_at) select name, now() from done
     on conflict (name) do update set succeeded_at = excluded.succeeded_at
      where k.succeeded_at is null or k.succeeded_at < now() - interval '1 second'`,
    [id, attempts],
  )
}

/** Stores a failed attempt. The job waits for the next attempt, or is marked as failed after the last one. */
export async function failJob(
  db: Queryable,
  { id, attempts }: ClaimedJob,
  { message, retry }: { message: string; retry: { attempts: number; delaySeconds: number } },
): Promise<void> {
  await db.query(
    `update job
        set is_running = false, last_error = $3,
            failed_at = case when attempts >= $4 then now() end,
            run_at = now() + least($5 * 2 ^ least(attempts - 1, 30) * (1 + random() / 4), $6) * interval '1 second'
      where id = $1 and attempts = $2 and is_running`,
    // PostgreSQL refuses a zero byte, which the response of a mail server can contain.
    [
      id,
      attempts,
      message.replaceAll('\0', '').slice(0, 2000),
      retry.attempts,
      retry.delaySeconds,
      maxDelaySeconds,
    ],
  )
}

/** Returns a job to the queue. The attempt does not count. */
export async function releaseJob(db: Queryable, { id, attempts }: ClaimedJob): Promise<void> {
  await db.query(
    `update job set is_running = false, run_at = now(), attempts = attempts - 1
      where id = $1 and attempts = $2 and is_running`,
    [id, attempts],
  )
}

/** `queued` jobs wait for their first or next attempt. `failed` ones are not tried again. */
export const jobStates = ['queued', 'running', 'failed'] as const
export type JobState = (typeof jobStates)[number]

/** A job, for operators. Its data is left out, because it may contain addresses and links with secrets. */
export interface ListedJob {
  id: string
  name: string
  state: JobState
  attempts: number
  createdAt: Date
  /** When a queued job may run, and when the lease of a running one ends. Null for a failed job. */
  runAt: Date | null
  failedAt: Date | null
  /** The error of the last attempt that failed. */
  lastError: string | null
}

/** Lists jobs, the oldest first. `after` is an id. A null state lists all. */
export async function listJobs(
  db: Queryable,
  { state, name }: { state: JobState | null; name: string | null },
  { after, limit }: ListPart,
): Promise<ListedJob[]> {
  const { rows } = await db.query<ListedJob>(
    `select id, name, state, attempts, created_at as "createdAt", case when failed_at is null then run_at end as "runAt",
            failed_at as "failedAt", last_error as "lastError"
       from job
      cross join lateral (
        select case when failed_at is not null then 'failed' when is_running then 'running' else 'queued' end as state
      ) as own
      where id > $1 and ($2::text is null or state = $2) and ($3::text is null or name = $3)
      order by id limit $4`,
    [readRowId(after) ?? '0', state, name, limit],
  )
  return rows
}

/**
 * Queues jobs again, at once and with all their attempts: the one with an id, which has failed or waits for its next
 * attempt, or all failed ones with a name. Returns their new ids. Leaves a running job alone.
 *
 * A process knows the job that it runs by its id and its number of attempts. So a retried job gets a new id: a process
 * that has lost its lease must not take the new attempts for its own.
 */
export async function retryJobs(
  db: Queryable,
  which: { id: string } | { failedName: string },
): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `with taken as (
       delete from job
        where not is_running and (id = $1 or name = $2 and failed_at is not null)
       returning id, name, key, crowd, data, last_error, created_at
     )
     insert into job (name, key, crowd, data, last_error, created_at)
     select name, key, crowd, data, last_error, created_at from taken order by id
     returning id`,
    'id' in which ? [which.id, null] : [null, which.failedName],
  )
  return rows.map(({ id }) => id)
}

/** The number of jobs of one name in each state, and the time of the last success (Unix seconds; null: never). */
export interface JobCount {
  name: string
  queued: number
  active: number
  failed: number
  /** The error of the job that failed last. Null when no job has failed. */
  lastError: string | null
  /** Seconds since 1970. Null when no job has succeeded. */
  succeededAt: number | null
}

/** Counts the jobs by name. */
export async function countJobs(db: Queryable): Promise<JobCount[]> {
  const { rows } = await db.query<JobCount>(
    `select name,
            (count(j.id) filter (where j.failed_at is null and not j.is_running))::int as queued,
            (count(j.id) filter (where j.is_running))::int as active,
            (count(j.id) filter (where j.failed_at is not null))::int as failed,
            (array_agg(j.last_error order by j.failed_at desc) filter (where j.failed_at is not null))[1] as "lastError",
            extract(epoch from max(k.succeeded_at))::float8 as "succeededAt"
       from job_kind k full join job j using (name)
      group by name`,
  )
  return rows
}

/** Deletes jobs whose last attempt failed long ago. Returns how many. */
export const deleteExpiredJobs = sweepOf('job', 'id', `failed_at < now() - interval '${keepFailedDays} days'`)

import type { AppContext } from '../context.ts'
import type { Queryable } from '../database/database.ts'
import type { Log } from '../domain/log.ts'
import { insertJob, insertJobs, insertJobUnlessDue, insertNewJobs, type NewJob } from './job-rows.ts'

/** What a job gets in addition to its data. */
export interface JobContext extends AppContext {
  log: Log
}

/**
 * Work that is not part of a request. To add a job:
 *
 * 1. Export one object of this type from the file that owns the work:
 *
 *        export const renderReadme: Job<{ versionId: string }> = {
 *          name: 'render-readme',
 *          singleton: ({ versionId }) => versionId,
 *          async run({ db }, { versionId }, signal) { … },
 *        }
 *
 * 2. Add it to the list in `web/server/jobs.ts`.
 * 3. Give it a schedule with `everySeconds`, or call `enqueue(tx, renderReadme, { versionId })` in the transaction that
 *    makes the work necessary. A process takes the job about a second after the commit.
 *
 * A job runs **at least once**. A process that is killed loses its lease after 30 seconds, and another process runs the
 * job again. So a second run must do no harm. Long work checks `signal` between its steps.
 */
export interface Job<Data = unknown> {
  /** The name in kebab-case. It is stored with queued jobs and is a label in `/metrics`, so do not rename a job. */
  name: string
  /**
   * Does the work. An error is logged once, and the job is retried, unless the error is FailedForGood. The signal is
   * aborted when the server stops or when the lease is lost. Then throw (`signal.throwIfAborted()`): another process
   * starts the job from its beginning.
   */
  run(context: JobContext, data: Data, signal: AbortSignal): Promise<void>
  /** Enqueues the job on this schedule, once for all processes. A scheduled job is a singleton and gets no data. */
  everySeconds?: number
  /**
   * True: one job of this name runs at a time, in all processes. A function: one job for each key that it returns. When
   * a job starts, waiting jobs with the same key are dropped, because they are the same work. So jobs with different
   * work need different keys.
   */
  singleton?: true | ((data: Data) => string)
  /**
   * The default is 5 attempts. The second attempt starts 10 seconds after the first. The delay doubles each time, up to
   * 6 hours.
   */
  retry?: { attempts: number; delaySeconds: number }
  /**
   * True for work that only the original of a database may do, such as sending mails: a copy of the database has the same
   * queue. The job waits until the process knows that its database has the claim on the archive store.
   */
  needsClaim?: true
  /** How many jobs of this name run at once in one process. The default is 1. */
  concurrency?: number
  /**
   * Bounds how many jobs of this name run at once in all processes for one crowd, such as those that send to one host. A job
   * that waits for its crowd lets others pass. A job whose crowd is null has no such bound.
   */
  crowd?: { of: (data: Data) => string | null; atOnce: number }
  /**
   * Whether these jobs run beside the slots that all others share. For jobs that wait for other servers, and for those
   * that nothing may delay. They hold no connection to the database while they wait.
   */
  hasOwnSlots?: boolean
}

/** Thrown by a job when a retry cannot help. The job is marked as failed at once. */
export class FailedForGood extends Error {
  override readonly name = 'FailedForGood'
}

/** The members of a job that its row in the queue needs. */
type QueuedJob<Data> = Pick<Job<Data>, 'name' | 'singleton' | 'crowd' | 'everySeconds'>

/**
 * Queues a job. Pass the client of the transaction that makes the work necessary, so that both commit or neither does.
 */
export async function enqueue<Data>(
  db: Queryable,
  job: QueuedJob<Data>,
  data: Data,
  { delaySeconds = 0 }: { delaySeconds?: number } = {},
): Promise<void> {
  await insertJob(db, rowOf(job, data), delaySeconds)
}

/** Queues many jobs without a key in one statement, in their order. */
export async function enqueueAll<Data>(
  db: Queryable,
  { name }: Pick<QueuedJob<Data>, 'name'>,
  all: readonly Data[],
): Promise<void> {
  await insertJobs(db, name, all)
}

/**
 * Queues singletons in one statement, in their order. Leaves out those whose key a job of any of these names has that waits
 * or runs.
 */
export async function enqueueNew<Data>(
  db: Queryable,
  wanted: readonly { job: QueuedJob<Data>; data: Data }[],
): Promise<void> {
  await insertNewJobs(
    db,
    wanted.map(({ job, data }) => rowOf(job, data)),
  )
}

/**
 * Queues a singleton unless one with the same key is due already. One that runs does not count: it may have missed what makes
 * the work necessary.
 */
export async function enqueueUnlessDue<Data>(db: Queryable, job: QueuedJob<Data>, data: Data): Promise<void> {
  await insertJobUnlessDue(db, rowOf(job, data))
}

function rowOf<Data>(job: QueuedJob<Data>, data: Data): NewJob {
  return { name: job.name, key: keyOf(job, data), crowd: job.crowd?.of(data) ?? null, data }
}

function keyOf<Data>(job: QueuedJob<Data>, data: Data): string | null {
  if (typeof job.singleton === 'function') return job.singleton(data)
  return job.singleton === true || job.everySeconds !== undefined ? '' : null
}

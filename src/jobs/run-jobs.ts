import { setTimeout as sleep } from 'node:timers/promises'
import type { AppContext } from '../context.ts'
import type { Queryable } from '../database/database.ts'
import { brokenConstraint } from '../database/errors.ts'
import type { Log } from '../domain/log.ts'
import { jobAttempts, observing } from '../domain/observations.ts'
import { FailedForGood, type Job } from './job.ts'
import {
  type ClaimedJob,
  claimJobs,
  completeJob,
  enqueueScheduled,
  extendLeases,
  type FreeSlots,
  failJob,
  leaseSeconds,
  noteSchedules,
  releaseJob,
} from './job-rows.ts'

/** How often an idle process looks for jobs. Each look is one short statement. */
const pollMilliseconds = 1_000
/** The number of polls between two reads of the schedule. */
const pollsPerSchedule = 5
/** How many jobs without own slots one process runs at once, so that most of the pool stays free for requests. */
const maxRunning = 5
const usualRetry = { attempts: 5, delaySeconds: 10 }
const noRetry = { attempts: 0, delaySeconds: 0 }

/** The jobs that a process runs. */
export interface RunningJobs {
  /**
   * Takes no new jobs, aborts the signal of the running jobs, and waits for them at most this many seconds. A job that
   * throws after the abort goes back to the queue at once.
   */
  stop: (seconds: number) => Promise<void>
}

/** Options of `runJobs`. */
interface JobOptions {
  pollEveryMilliseconds?: number
  /** Whether jobs with `needsClaim` may start now. */
  hasClaim?: () => boolean
}

/**
 * Runs the schedule and takes due jobs from the queue until `stop`. An outage of the database delays jobs, but loses
 * none.
 */
export function runJobs(
  context: AppContext,
  jobs: readonly Job[],
  log: Log,
  { pollEveryMilliseconds = pollMilliseconds, hasClaim = () => true }: JobOptions = {},
): RunningJobs {
  const { db } = context
  const byName = new Map(jobs.map((job) => [job.name, job]))
  const schedules = schedulesOf(jobs)
  const crowds = crowdsOf(jobs)
  const running = new Map<ClaimedJob, { ended: Promise<void>; lease: AbortController }>()
  const stopping = new AbortController()
  let wake = () => {}

  async function poll(): Promise<void> {
    let areSchedulesNoted = false
    for (let polls = 0; !stopping.signal.aborted; polls += 1) {
      let claimed: ClaimedJob[] = []
      try {
        if (!areSchedulesNoted) await noteSchedules(db, schedules)
        areSchedulesNoted = true
        if (polls % pollsPerSchedule === 0) await enqueueScheduled(db, schedules)
        if (stopping.signal.aborted) return
        claimed = await claim(db, freeSlots())
      } catch (error) {
        log.warn({ err: error }, 'the job queue cannot be read')
      }
      // The stop can come while the claim runs. Such a claim also takes the jobs that this stop has just given back.
      if (stopping.signal.aborted) return giveBack(claimed)
      for (const row of claimed) start(row)
      if (claimed.length === 0) await pause()
    }
  }

  /** Returns jobs to the queue that this process has claimed and not started. */
  async function giveBack(rows: readonly ClaimedJob[]): Promise<void> {
    try {
      await Promise.all(rows.map((row) => releaseJob(db, row)))
    } catch (error) {
      log.warn({ err: error }, 'claimed jobs could not be given back: they wait until their leases end')
    }
  }

  /** Returns the jobs that this process can take now. The order is random, so that each job gets its turn. */
  function freeSlots(): FreeSlots {
    const counts = new Map<string, number>()
    for (const { name } of running.keys()) counts.set(name, (counts.get(name) ?? 0) + 1)
    const isOriginal = hasClaim()
    const free = jobs
      .filter(({ needsClaim = false }) => isOriginal || !needsClaim)
      .filter(({ name, concurrency = 1 }) => (counts.get(name) ?? 0) < concurrency)
      .map((job) => ({ job, turn: Math.random() }))
      .sort((one, other) => one.turn - other.turn)
      .map(({ job }) => job)
    const inShared = [...running.keys()].filter(({ name }) => !byName.get(name)?.hasOwnSlots).length
    return {
      names: free.filter(({ hasOwnSlots }) => !hasOwnSlots).map(({ name }) => name),
      limit: maxRunning - inShared,
      ownNames: free.filter(({ hasOwnSlots }) => hasOwnSlots).map(({ name }) => name),
      crowds,
    }
  }

  function start(row: ClaimedJob): void {
    const job = byName.get(row.name)
    if (!job) return
    const lease = new AbortController()
    const ended = runOnce({ context, job, row, log, signal: lease.signal }).finally(() => {
      running.delete(row)
      wake()
    })
    running.set(row, { ended, lease })
  }

  function pause(): Promise<void> {
    return new Promise((resolve) => {
      // Processes that start together must not poll together.
      const timer = setTimeout(resolve, pollEveryMilliseconds * (0.75 + Math.random() / 2))
      wake = () => {
        clearTimeout(timer)
        resolve()
      }
    })
  }

  const extending = setInterval(() => void extend(), (leaseSeconds * 1000) / 3).unref()
  async function extend(): Promise<void> {
    if (running.size === 0) return
    const rows = [...running.keys()]
    try {
      const kept = new Set(await extendLeases(db, rows))
      // Another process took these jobs. Abort them here, so that no job runs twice at the same time.
      for (const row of rows) if (!kept.has(row.id)) running.get(row)?.lease.abort()
    } catch (error) {
      log.warn({ err: error }, 'the leases of running jobs could not be extended')
    }
  }

  const polling = poll()
  return {
    async stop(seconds) {
      stopping.abort()
      wake()
      for (const { lease } of running.values()) lease.abort()
      const deadline = new AbortController()
      const ended = polling.then(() => Promise.all([...running.values()].map(({ ended }) => ended)))
      await Promise.race([ended, sleep(seconds * 1000, null, { signal: deadline.signal }).catch(() => {})])
      deadline.abort()
      clearInterval(extending)
    },
  }
}

/** Runs the jobs that are due now, in this process, until none is left. Tests use it to run single jobs. */
export async function runDueJobs(context: AppContext, jobs: readonly Job[], log: Log): Promise<void> {
  const signal = new AbortController().signal
  const names = jobs.map(({ name }) => name)
  for (;;) {
    const rows = await claim(context.db, { names, limit: maxRunning, ownNames: [], crowds: crowdsOf(jobs) })
    if (rows.length === 0) return
    for (const row of rows) {
      const job = jobs.find(({ name }) => name === row.name)
      if (job) await runOnce({ context, job, row, log, signal })
    }
  }
}

function schedulesOf(jobs: readonly Job[]): Map<string, number> {
  const schedules = new Map<string, number>()
  for (const { name, everySeconds } of jobs) {
    if (everySeconds !== undefined) schedules.set(name, everySeconds)
  }
  return schedules
}

function crowdsOf(jobs: readonly Job[]): Map<string, number> {
  return new Map(jobs.flatMap(({ name, crowd }) => (crowd ? [[name, crowd.atOnce]] : [])))
}

async function claim(db: Queryable, free: FreeSlots): Promise<ClaimedJob[]> {
  if ((free.names.length === 0 || free.limit === 0) && free.ownNames.length === 0) return []
  try {
    return await claimJobs(db, free)
  } catch (error) {
    // Another process started a job with the same key at the same moment.
    if (brokenConstraint(error) === 'job_runs_once') return []
    throw error
  }
}

interface Run {
  context: AppContext
  job: Job
  row: ClaimedJob
  log: Log
  signal: AbortSignal
}

/** Runs a job and writes the outcome. Never throws: if the outcome cannot be written, the job runs again. */
async function runOnce({ context, job, row, log, signal }: Run): Promise<void> {
  const { db } = context
  const retry = job.retry ?? usualRetry
  const about = { job: job.name, attempt: row.attempts }
  const outcome = await observing(jobAttempts, job.name, attempt, (error) => {
    if (error === null) return 'ok'
    return signal.aborted ? 'stopped' : 'error'
  })
  try {
    if (outcome === null) await completeJob(db, row)
    else if (signal.aborted) await releaseJob(db, row)
    else await failJob(db, row, { message: outcome.message, retry: isLast(outcome) ? noRetry : retry })
  } catch (error) {
    log.warn({ ...about, err: error }, 'the result of a job could not be written: the job will run again')
  }

  function isLast(error: Error): boolean {
    return error instanceof FailedForGood || row.attempts >= retry.attempts
  }

  async function attempt(): Promise<Error | null> {
    try {
      // The process that ran the last attempt was killed.
      if (row.attempts > retry.attempts) throw new Error('The process ended during the last attempt.')
      await job.run({ ...context, log }, row.data, signal)
      return null
    } catch (thrown) {
      const error = thrown instanceof Error ? thrown : new Error(String(thrown))
      if (signal.aborted) return error
      const isFinal = isLast(error)
      log[isFinal ? 'error' : 'warn'](
        { ...about, err: error },
        isFinal ? 'a job failed and will not be retried' : 'a job failed and will be retried',
      )
      return error
    }
  }
}

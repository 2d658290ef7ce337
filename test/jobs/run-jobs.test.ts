import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { readConfig } from '../../src/config.ts'
import { transaction } from '../../src/database/database.ts'
import { enqueue, enqueueNew, enqueueUnlessDue, type Job } from '../../src/jobs/job.ts'
import { type RunningJobs, runDueJobs, runJobs } from '../../src/jobs/run-jobs.ts'
import { openLog } from '../../src/web/server/log.ts'
import { useDatabase } from '../support/database.ts'
import {
  aJobKind,
  aStoredJob,
  beginJobs,
  listJobKinds,
  listStoredJobs,
  makeJobsDue,
  setAttempts,
  setNextJob,
  setTurns,
} from '../support/job-rows.ts'
import { databaseUrl } from '../support/program.ts'
import { dropRows } from '../support/rows.ts'

const t = useDatabase()
const config = readConfig({})
const stream = new PassThrough()
let logged: { msg: string; job?: string; attempt?: number }[] = []
stream.on('data', (chunk: Buffer) => {
  logged.push(
    ...chunk
      .toString()
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  )
})
const log = openLog('info', stream)
const processes: RunningJobs[] = []

/** Runs jobs as another svc process on this database does. */
function aProcess(jobs: readonly Job[], db: pg.Pool = t.db): RunningJobs {
  const running = runJobs({ config, db }, jobs, log, { pollEveryMilliseconds: 20 })
  processes.push(running)
  return running
}

/** A pool whose statements that take jobs wait from `hold` until `release`. `hold` resolves when one waits. */
function aPoolThatHoldsItsClaims() {
  const db = new pg.Pool(t.connection)
  const query = db.query.bind(db)
  let reached: (() => void) | null = null
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  Object.assign(db, {
    query: async (...given: Parameters<typeof query>) => {
      if (reached && String(given[0]).includes('is_running = true')) {
        reached()
        await released
      }
      return query(...given)
    },
  })
  const hold = () =>
    new Promise<void>((resolve) => {
      reached = resolve
    })
  return { db, hold, release }
}

/** A job that waits until it is released, and notes what happens. */
function aSlowJob(name: string, more: Partial<Job> = {}) {
  const state = { begun: 0, running: 0, most: 0, done: 0, release: () => {} }
  const released = new Promise<void>((resolve) => {
    state.release = resolve
  })
  const job: Job = {
    name,
    async run(_context, _data, signal) {
      state.begun += 1
      state.running += 1
      state.most = Math.max(state.most, state.running)
      const aborted = new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('aborted')))
      })
      try {
        await Promise.race([released, aborted])
        state.done += 1
      } finally {
        state.running -= 1
      }
    },
    ...more,
  }
  return { job, state }
}

/** How long a test waits for the end of a process that stops: it ends much earlier, except on a slow machine. */
const patienceSeconds = 60

/** Repeats the check until it passes. The limit is far above the usual 100 ms, for a machine under load. */
const eventually = (check: () => unknown) => vi.waitFor(check, 60_000)

const rows = () => listStoredJobs(t.db)

afterEach(async () => {
  await Promise.all(processes.splice(0).map((running) => running.stop(patienceSeconds)))
  await dropRows(t.db, 'job')
  await dropRows(t.db, 'job_kind')
  logged = []
})

describe('a job', () => {
  it('is queued by the transaction that makes it necessary, or not at all', async () => {
    const seen: unknown[] = []
    const job: Job<{ n: number }> = { name: 'note', run: async (_context, { n }) => void seen.push(n) }
    await transaction(t.db, (tx) => enqueue(tx, job, { n: 1 }))
    const failing = transaction(t.db, async (tx) => {
      await enqueue(tx, job, { n: 2 })
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    aProcess([job as Job])
    await eventually(async () => expect(await rows()).toEqual([]))
    expect(seen).toEqual([1])
    const [kind] = await listJobKinds(t.db)
    expect(kind?.succeededAt?.getTime()).toBeGreaterThan(Date.now() - 60_000)
  })

  it('is retried after its delay, whatever text its error has', async () => {
    const job: Job = {
      name: 'broken',
      retry: { attempts: 3, delaySeconds: 100 },
      async run() {
        throw new Error('451 a\0b')
      },
    }
    await enqueue(t.db, job, {})
    await runDueJobs({ config, db: t.db }, [job], log)
    expect(await rows()).toMatchObject([{ isRunning: false, attempts: 1, lastError: '451 ab' }])
  })

  it('is retried with a growing delay, logged once for each attempt, and stays visible when it failed', async () => {
    let runs = 0
    const job: Job = {
      name: 'broken',
      retry: { attempts: 4, delaySeconds: 100 },
      async run() {
        runs += 1
        throw new Error(`broken ${runs}`)
      },
    }
    await enqueue(t.db, job, {})
    const delays: number[] = []
    for (let i = 0; i < 4; i += 1) {
      await runDueJobs({ config, db: t.db }, [job], log)
      const [waiting] = await rows()
      delays.push(waiting?.dueSeconds ?? 0)
      await makeJobsDue(t.db)
    }
    await runDueJobs({ config, db: t.db }, [job], log)
    expect(runs).toBe(4)
    expect(delays[0]).toBeGreaterThan(90)
    expect(delays[0]).toBeLessThan(130)
    expect(delays[1]).toBeGreaterThan(190)
    expect(delays[2]).toBeGreaterThan(390)
    expect(await rows()).toMatchObject([
      { isRunning: false, attempts: 4, hasFailed: true, lastError: 'broken 4' },
    ])
    await eventually(() => expect(logged).toHaveLength(4))
    expect(logged.map(({ msg, job: name, attempt }) => [msg, name, attempt])).toEqual([
      ['a job failed and will be retried', 'broken', 1],
      ['a job failed and will be retried', 'broken', 2],
      ['a job failed and will be retried', 'broken', 3],
      ['a job failed and will not be retried', 'broken', 4],
    ])
  })

  it('waits at most six hours for its next attempt', async () => {
    const job: Job = {
      name: 'broken',
      retry: { attempts: 50, delaySeconds: 100 },
      async run() {
        throw new Error('broken')
      },
    }
    await enqueue(t.db, job, {})
    await setAttempts(t.db, 40)
    await runDueJobs({ config, db: t.db }, [job], log)
    const hours = ((await rows())[0]?.dueSeconds ?? 0) / 3600
    expect(hours).toBeGreaterThan(5)
    expect(hours).toBeLessThanOrEqual(6)
  })

  it('does not run before its delay has passed', async () => {
    const { job, state } = aSlowJob('later')
    await enqueue(t.db, job, {}, { delaySeconds: 60 })
    await runDueJobs({ config, db: t.db }, [job], log)
    expect(state.begun).toBe(0)
  })

  it('is left to another process when this process does not know its name', async () => {
    const { job, state } = aSlowJob('known')
    await aStoredJob(t.db, 'unknown')
    await enqueue(t.db, job, {})
    aProcess([job])
    await eventually(() => expect(state.begun).toBe(1))
    state.release()
    await eventually(async () => expect(await rows()).toMatchObject([{ name: 'unknown', attempts: 0 }]))
  })
})

describe('a singleton', () => {
  it('runs once at a time in many processes', async () => {
    const { job, state } = aSlowJob('only', { singleton: true })
    for (let i = 0; i < 5; i += 1) await enqueue(t.db, job, {})
    const pools = Array.from({ length: 4 }, () => new pg.Pool(t.connection))
    for (const db of pools) aProcess([job], db)
    await eventually(() => expect(state.begun).toBe(1))
    for (let i = 0; i < 20; i += 1) await t.db.query('select pg_sleep(0.01)')
    expect(state.begun).toBe(1)
    state.release()
    await eventually(async () => expect(await rows()).toEqual([]))
    expect(state.most).toBe(1)
    expect(state.done).toBe(state.begun)
    // A process that loses the race for a job keeps it from being dropped, so there may be a run for each of them.
    expect(state.begun).toBeLessThanOrEqual(5)
    await Promise.all(processes.splice(0).map((running) => running.stop(patienceSeconds)))
    await Promise.all(pools.map((db) => db.end()))
  })

  it('is dropped when it waits while another one starts, but not when it comes later', async () => {
    const { job, state } = aSlowJob('only', { singleton: true })
    for (let i = 0; i < 5; i += 1) await enqueue(t.db, job, {})
    aProcess([job])
    await eventually(() => expect(state.begun).toBe(1))
    // Enqueue the job again while it runs: a later change may need another run.
    await enqueue(t.db, job, {})
    expect(await rows()).toHaveLength(2)
    state.release()
    await eventually(async () => expect(await rows()).toEqual([]))
    expect(state).toMatchObject({ begun: 2, done: 2 })
  })

  it('with a key is queued with many others in their order, unless it waits or runs already', async () => {
    const job = (name: string): Job<{ id: string }> => ({
      name,
      singleton: ({ id }) => id,
      run: async () => {},
    })
    const queue = (...wanted: [string, string][]) =>
      enqueueNew(
        t.db,
        wanted.map(([name, id]) => ({ job: job(name), data: { id } })),
      )
    await queue(['quick', '1'], ['slow', '2'])
    await beginJobs(t.db, '2')
    await queue(['slow', '1'], ['quick', '2'], ['slow', '4'], ['quick', '3'])
    expect((await rows()).map(({ name, key }) => `${name} ${key}`)).toEqual([
      'quick 1',
      'slow 2',
      'slow 4',
      'quick 3',
    ])
  })

  it('is queued when one that runs or waits for a later attempt has its key, but not when one is due', async () => {
    const job = { name: 'pushed', singleton: ({ id }: { id: string }) => id }
    const queue = (id: string) => enqueueUnlessDue(t.db, job, { id })
    await queue('1')
    await queue('1')
    await queue('2')
    expect((await rows()).map(({ key }) => key)).toEqual(['1', '2'])
    await beginJobs(t.db, '1')
    await queue('1')
    await queue('1')
    await enqueue(t.db, job, { id: '3' }, { delaySeconds: 60 })
    await queue('3')
    expect((await rows()).map(({ key }) => key)).toEqual(['1', '2', '1', '3', '3'])
  })

  it('with keys runs once at a time for each key', async () => {
    const { job, state } = aSlowJob('keyed', {
      singleton: (data) => (data as { key: string }).key,
      concurrency: 4,
    })
    for (const key of ['a', 'a', 'b', 'c']) await enqueue(t.db, job, { key })
    aProcess([job])
    aProcess([job])
    await eventually(() => expect(state.running).toBe(3))
    state.release()
    await eventually(async () => expect(await rows()).toEqual([]))
    expect(state.most).toBe(3)
    // The second job of "a" was dropped. If two processes raced for one job, there is a fourth run.
    expect([3, 4]).toContain(state.begun)
  })

  it('that waits for its running predecessor delays no other job', async () => {
    const only = aSlowJob('only', { singleton: true, concurrency: 2 })
    const other = aSlowJob('other')
    other.state.release()
    await enqueue(t.db, only.job, {})
    aProcess([only.job, other.job])
    await eventually(() => expect(only.state.begun).toBe(1))
    await enqueue(t.db, only.job, {})
    await enqueue(t.db, other.job, {})
    await eventually(() => expect(other.state.done).toBe(1))
    expect(only.state.begun).toBe(1)
    only.state.release()
    await eventually(async () => expect(await rows()).toEqual([]))
    expect(only.state).toMatchObject({ begun: 2, most: 1 })
  })
})

describe('a schedule', () => {
  it('enqueues a job once for all processes', async () => {
    const { job, state } = aSlowJob('daily', { everySeconds: 86_400 })
    await aJobKind(t.db, 'daily', { nextSeconds: -60 })
    aProcess([job])
    aProcess([job])
    await eventually(() => expect(state.begun).toBe(1))
    state.release()
    await eventually(async () => expect(await rows()).toEqual([]))
    const hours = ((await listJobKinds(t.db))[0]?.nextSeconds ?? 0) / 3600
    expect(hours).toBeGreaterThan(20)
    expect(hours).toBeLessThan(26)
    expect(state).toMatchObject({ begun: 1, most: 1 })
  })

  it('starts within its interval, is kept at a restart, and is brought forward when it becomes shorter', async () => {
    const next = async () => (await listJobKinds(t.db))[0]?.nextSeconds
    await aProcess([aSlowJob('tick', { everySeconds: 86_400 }).job]).stop(patienceSeconds)
    await setNextJob(t.db, 'tick', 86_000)
    await aProcess([aSlowJob('tick', { everySeconds: 86_400 }).job]).stop(patienceSeconds)
    expect(await next()).toBeGreaterThan(85_000)
    await aProcess([aSlowJob('tick', { everySeconds: 60 }).job]).stop(patienceSeconds)
    expect(await next()).toBeLessThan(61)
  })
})

describe('a process', () => {
  it('runs jobs with own slots while other jobs have all the slots that they share', async () => {
    const slow = Array.from({ length: 6 }, (_, i) => aSlowJob(`slow-${i}`))
    const mail = aSlowJob('mail', { hasOwnSlots: true, concurrency: 2 })
    for (const { job } of slow) await enqueue(t.db, job, {})
    aProcess([...slow.map(({ job }) => job), mail.job])
    const begun = () => slow.reduce((sum, { state }) => sum + state.begun, 0)
    await eventually(() => expect(begun()).toBe(5))
    for (let i = 0; i < 3; i += 1) await enqueue(t.db, mail.job, {})
    await eventually(() => expect(mail.state.begun).toBe(2))
    expect(begun()).toBe(5)
    mail.state.release()
    await eventually(() => expect(mail.state.done).toBe(3))
  })

  it('that stops aborts its jobs and gives them back', async () => {
    const { job, state } = aSlowJob('long')
    await enqueue(t.db, job, {})
    const first = aProcess([job])
    await eventually(() => expect(state.begun).toBe(1))
    await first.stop(patienceSeconds)
    expect(await rows()).toMatchObject([{ isRunning: false, attempts: 0, lastError: null }])
    expect(logged).toEqual([])
    aProcess([job])
    await eventually(() => expect(state.begun).toBe(2))
  })

  it('that stops gives back the jobs that it takes at that moment, and starts none of them', async () => {
    const { job, state } = aSlowJob('late')
    await enqueue(t.db, job, {})
    const { db, hold, release } = aPoolThatHoldsItsClaims()
    const claiming = hold()
    const first = aProcess([job], db)
    await claiming
    const stopped = first.stop(patienceSeconds)
    release()
    await stopped
    expect(state.begun).toBe(0)
    expect(await rows()).toMatchObject([{ isRunning: false, attempts: 0, lastError: null }])
    expect(logged).toEqual([])
    await db.end()
  })

  it('that stops does not take a job again that it has just given back', async () => {
    const { job, state } = aSlowJob('again', { concurrency: 2 })
    await enqueue(t.db, job, {})
    const { db, hold, release } = aPoolThatHoldsItsClaims()
    const first = aProcess([job], db)
    await eventually(() => expect(state.begun).toBe(1))
    await hold()
    const stopped = first.stop(patienceSeconds)
    await eventually(async () => expect(await rows()).toMatchObject([{ isRunning: false }]))
    release()
    await stopped
    expect(state.begun).toBe(1)
    expect(await rows()).toMatchObject([{ isRunning: false, attempts: 0, lastError: null }])
    await db.end()
  })

  it('that stops does not wait for a job that ignores the signal', async () => {
    const { job, state } = aSlowJob('deaf')
    const deaf: Job = { ...job, run: (context, data) => job.run(context, data, new AbortController().signal) }
    await enqueue(t.db, deaf, {})
    const first = aProcess([deaf])
    await eventually(() => expect(state.begun).toBe(1))
    await first.stop(0.05)
    expect(state.done).toBe(0)
    state.release()
    await eventually(async () => expect(await rows()).toEqual([]))
  })

  it('that is killed loses its job to another one when the lease ends', async () => {
    const path = fileURLToPath(new URL('../support/job-process.ts', import.meta.url))
    const child = spawn(process.execPath, ['--import', 'tsx', path, databaseUrl(t.connection)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const { job, state } = aSlowJob('long')
    await enqueue(t.db, job, {})
    await once(child.stdout, 'data')
    child.kill('SIGKILL')
    await once(child, 'exit')
    await runDueJobs({ config, db: t.db }, [job], log)
    expect(state.begun).toBe(0)
    expect(await rows()).toMatchObject([{ isRunning: true, attempts: 1 }])
    await makeJobsDue(t.db)
    state.release()
    await runDueJobs({ config, db: t.db }, [job], log)
    expect(state).toMatchObject({ begun: 1, done: 1 })
    expect(await rows()).toEqual([])
  })

  it('that is killed during the last attempt leaves a failed job, which nobody runs again', async () => {
    const { job, state } = aSlowJob('long', { retry: { attempts: 2, delaySeconds: 10 } })
    await enqueue(t.db, job, {})
    await beginJobs(t.db)
    await setAttempts(t.db, 2)
    await makeJobsDue(t.db)
    await runDueJobs({ config, db: t.db }, [job], log)
    expect(state.begun).toBe(0)
    expect(await rows()).toMatchObject([
      {
        isRunning: false,
        hasFailed: true,
        lastError: 'The process ended during the last attempt.',
      },
    ])
  })

  it('that lost its lease aborts the job and leaves the row to the new owner', async () => {
    vi.useFakeTimers({ toFake: ['setInterval'] })
    const { job, state } = aSlowJob('long')
    await enqueue(t.db, job, {})
    aProcess([job])
    await eventually(() => expect(state.begun).toBe(1))
    await setAttempts(t.db, 2)
    vi.advanceTimersByTime(10_000)
    vi.useRealTimers()
    await eventually(() => expect(state.running).toBe(0))
    expect(await rows()).toMatchObject([{ isRunning: true, attempts: 2 }])
  })

  it('extends the leases of its jobs', async () => {
    vi.useFakeTimers({ toFake: ['setInterval'] })
    const { job, state } = aSlowJob('long')
    await enqueue(t.db, job, {})
    aProcess([job])
    await eventually(() => expect(state.begun).toBe(1))
    await setTurns(t.db, 1)
    vi.advanceTimersByTime(10_000)
    vi.useRealTimers()
    await eventually(async () => {
      expect((await rows())[0]?.dueSeconds).toBeGreaterThan(20)
    })
    state.release()
  })

  it('polls with one statement, and reads the schedule every fifth time', async () => {
    const db = new pg.Pool(t.connection)
    const texts: string[] = []
    const query = db.query.bind(db)
    Object.assign(db, {
      query: (...given: Parameters<typeof query>) => {
        texts.push(String(given[0]))
        return query(...given)
      },
    })
    const { job } = aSlowJob('rare', { everySeconds: 86_400 })
    const running = aProcess([job], db)
    const claims = () =>
      texts.filter((text) => text.includes('skip locked') && text.includes('is_running = true'))
    await eventually(() => expect(claims().length).toBeGreaterThanOrEqual(20))
    await running.stop(patienceSeconds)
    await db.end()
    // One statement stores the schedules. Every fifth poll reads them before its claim, and the stop may come in between.
    expect(texts.length).toBeLessThanOrEqual(1 + claims().length + Math.floor(claims().length / 5) + 1)
  })

  it('survives an outage of the database, also while a job ends', async () => {
    const { job, state } = aSlowJob('long')
    await enqueue(t.db, job, {})
    const db = new pg.Pool({ ...t.connection, application_name: 'outage' })
    db.on('error', () => {})
    db.on('connect', (client) => client.on('error', () => {}))
    const running = aProcess([job], db)
    await eventually(() => expect(state.begun).toBe(1))
    const admin = new pg.Client({ ...t.connection, database: 'postgres' })
    await admin.connect()
    await admin.query(`alter database ${t.connection.database} allow_connections false`)
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'outage'`,
    )
    await eventually(() =>
      expect(logged).toContainEqual(expect.objectContaining({ msg: 'the job queue cannot be read' })),
    )
    state.release()
    const msg = 'the result of a job could not be written: the job will run again'
    await eventually(() => expect(logged).toContainEqual(expect.objectContaining({ msg, job: 'long' })))
    await admin.query(`alter database ${t.connection.database} allow_connections true`)
    await admin.end()
    await makeJobsDue(t.db)
    await eventually(async () => expect(await rows()).toEqual([]))
    expect(state.done).toBe(2)
    await running.stop(patienceSeconds)
    await db.end()
  })
})

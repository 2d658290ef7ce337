import { once } from 'node:events'
import { readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { parentPort, Worker } from 'node:worker_threads'
import { traceSources } from './stack-traces.ts'

/** A task that its thread did not finish: it took too long, or needed too much memory. */
export class ThreadFailure extends Error {
  override readonly name = 'ThreadFailure'
}

/** Worker threads for work that would block the event loop. They start when they are needed. */
export interface Threads<Task> {
  /**
   * Runs a task in a thread. Byte arrays that have their memory for themselves are moved, so do not use them after the
   * call. Throws `ThreadFailure`, or the error of the task.
   */
  run: <Result>(task: Task, options: TaskOptions) => Promise<Result>
  /** Ends the threads, also those that run a task. */
  close: () => Promise<void>
}

export interface TaskOptions {
  /**
   * The time limit. It does not include the time in which the task waits for a thread, and on Linux only the time in which
   * the thread runs: other work on the machine ends no task.
   */
  milliseconds: number
  /** Urgent tasks come before all others. */
  isUrgent?: boolean
  /** For whom the task is. A task of somebody else comes before the second task for the same one. */
  owner?: string
}

interface Waiting {
  isUrgent: boolean
  owner: string | undefined
  start: () => void
}

type Reply = { result: unknown } | { error: unknown }

/** How often a task may take its time limit by the clock, if its thread hardly runs. */
const maxWaits = 6

/** Opens threads that run a module. The module calls `serveThread`. `module` is its URL, without an extension. */
export function openThreads<Task>(
  module: URL,
  { count, maxHeapMegabytes }: { count: number; maxHeapMegabytes: number },
): Threads<Task> {
  const all = new Map<Worker, ThreadClock>()
  const idle: Worker[] = []
  const owners: (string | undefined)[] = []
  const waiting: Waiting[] = []

  /** Waits for a thread. A thread is free for each entry that `owners` has less than `count`. */
  async function takeTurn({ isUrgent = false, owner }: TaskOptions): Promise<void> {
    if (owners.length >= count)
      await new Promise<void>((start) => waiting.push({ isUrgent, owner, start: () => start() }))
    else owners.push(owner)
  }

  /** Gives the turn to the next task, which must not meet a later call in between. */
  function passTurn({ owner }: TaskOptions): void {
    owners.splice(owners.indexOf(owner), 1)
    const isServed = (one: Waiting) => one.owner !== undefined && owners.includes(one.owner)
    const next =
      waiting.find(({ isUrgent }) => isUrgent) ?? waiting.find((one) => !isServed(one)) ?? waiting[0]
    if (!next) return
    waiting.splice(waiting.indexOf(next), 1)
    owners.push(next.owner)
    next.start()
  }

  async function startThread(): Promise<Worker> {
    const started = newThread(module, { maxOldGenerationSizeMb: maxHeapMegabytes })
    const [clock] = (await once(started, 'message')) as [ThreadClock]
    all.set(started, clock)
    // Without a listener, an error between two tasks would end the process.
    started.on('error', () => {})
    started.on('exit', () => {
      all.delete(started)
      if (idle.includes(started)) idle.splice(idle.indexOf(started), 1)
    })
    return started
  }

  return {
    async run<Result>(task: Task, options: TaskOptions) {
      await takeTurn(options)
      try {
        const thread = idle.pop() ?? (await startThread())
        const limit = { milliseconds: options.milliseconds, clock: all.get(thread) ?? null }
        const reply = await ask(thread, task, limit)
        idle.push(thread)
        if ('error' in reply) throw reply.error
        return reply.result as Result
      } finally {
        passTurn(options)
      }
    },
    async close() {
      await Promise.all(Array.from(all.keys(), (thread) => thread.terminate()))
    },
  }
}

/** Sends a task to a thread. Ends the thread when it does not finish the task. */
async function ask<Task>(thread: Worker, task: Task, limit: TimeLimit): Promise<Reply> {
  const ended = new AbortController()
  const { signal } = ended
  // Only a running task keeps the process alive.
  thread.ref()
  try {
    const late = passLimit(limit, signal).then(() => 'late' as const)
    thread.postMessage(task, movable(task))
    const answer = await Promise.race([once(thread, 'message', { signal }) as Promise<[Reply]>, late])
    if (answer === 'late') throw new ThreadFailure('takes too long')
    thread.unref()
    return answer[0]
  } catch (error) {
    await thread.terminate()
    if (error instanceof ThreadFailure) throw error
    throw new ThreadFailure('needs too much memory', { cause: error })
  } finally {
    ended.abort()
  }
}

/** The file in which Linux counts the time that a thread runs. Null on other systems. */
type ThreadClock = string | null

interface TimeLimit {
  milliseconds: number
  clock: ThreadClock
}

/** Resolves when the thread has run for this time, or has waited for the processor much longer. */
async function passLimit({ milliseconds, clock }: TimeLimit, signal: AbortSignal): Promise<void> {
  const time = () => (clock === null ? performance.now() : readClock(clock))
  const end = time() + milliseconds
  const last = performance.now() + milliseconds * maxWaits
  for (;;) {
    const left = Math.min(end - time(), last - performance.now())
    if (left <= 0) return
    // The end of the task aborts the wait.
    await sleep(left, null, { signal, ref: false }).catch(() => {})
    if (signal.aborted) return
  }
}

/** Returns how long a thread has run so far, in milliseconds. Throws when it has ended. */
function readClock(clock: string): number {
  const [nanoseconds] = readFileSync(clock, 'utf8').split(' ')
  return Number(nanoseconds) / 1e6
}

/** Returns the clock of the thread that calls it. */
function findClock(): ThreadClock {
  try {
    const clock = `/proc/${readlinkSync('/proc/thread-self')}/schedstat`
    return readClock(clock) > 0 ? clock : null
  } catch {
    return null
  }
}

/**
 * Starts a thread. When svc runs from source (`npm run dev`), the thread first registers tsx, to read TypeScript.
 * What `node --import` loads, such as OpenTelemetry, is for the main thread only: it would take most of the memory of a
 * thread, and seconds of its start.
 */
function newThread(module: URL, resourceLimits: { maxOldGenerationSizeMb: number }): Worker {
  if (!import.meta.url.endsWith('.ts'))
    return new Worker(new URL(`${module.href}.js`), { resourceLimits, execArgv: [] })
  const script = `import('tsx/esm/api').then(({ register }) => { register(); return import('${module.href}.ts') })`
  return new Worker(script, { eval: true, resourceLimits })
}

/** Runs the tasks of this thread, one after another. */
export function serveThread<Task>(run: (task: Task) => unknown): void {
  traceSources()
  async function reply(task: Task): Promise<void> {
    const outcome: Reply = await Promise.resolve(task)
      .then(run)
      .then(
        (result) => ({ result }),
        (error: unknown) => ({ error }),
      )
    parentPort?.postMessage(outcome, movable(outcome))
  }
  parentPort?.on('message', (task: Task) => void reply(task))
  parentPort?.postMessage(findClock())
}

/** Lists the memory of byte arrays in a value that need not be copied, because nothing else is in it. */
function movable(value: unknown, levels = 3): ArrayBuffer[] {
  if (value instanceof Uint8Array) {
    const isAlone = value.byteLength === value.buffer.byteLength && value.byteLength > 0
    return isAlone && value.buffer instanceof ArrayBuffer ? [value.buffer] : []
  }
  const isPlain = typeof value === 'object' && value !== null && levels > 0
  // A long list has no byte arrays.
  const parts = isPlain ? Object.values(value) : []
  return parts.length > 1000 ? [] : parts.flatMap((part) => movable(part, levels - 1))
}

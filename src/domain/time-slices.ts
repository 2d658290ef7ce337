import { setImmediate, setTimeout as sleep } from 'node:timers/promises'

/**
 * How long a loop runs before it pauses. Other requests may wait 50 ms at most. This is a fifth of that, because
 * several archives can be checked at once.
 */
const sliceMilliseconds = 10

/**
 * Returns a function for long loops. Call `await pause()` in each iteration. Every 10 ms it lets all other requests run
 * first. Without it, a loop that never waits for I/O would block the whole server.
 */
export function makePause(): () => Promise<void> | undefined {
  let sliceStart = performance.now()

  async function letOthersRun(): Promise<void> {
    await setImmediate()
    sliceStart = performance.now()
  }

  return () => (performance.now() - sliceStart < sliceMilliseconds ? undefined : letOthersRun())
}

/**
 * Lets Node take what the kernel has: new connections, and bytes that have arrived. A process that was busy or paused is
 * late with both.
 */
export async function takeWhatArrived(): Promise<void> {
  // The first one ends the current round of the event loop, whose events may be old. The second one ends a new round.
  await setImmediate()
  await setImmediate()
}

/**
 * Resolves with `value` after this time. What has arrived by then comes before it: after a pause of the process, timers run
 * first. Does not keep the process running.
 */
export async function afterPatience<Value>(milliseconds: number, value: Value): Promise<Value> {
  await sleep(milliseconds, undefined, { ref: false })
  await takeWhatArrived()
  return value
}

/** Returns a function that runs at most `limit` tasks at once. Other tasks wait in the order of their calls. */
export function limitConcurrency(limit: number): <T>(task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let running = 0
  return async (task) => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve))
    else running += 1
    try {
      return await task()
    } finally {
      // Give the free place directly to the first waiting task, so that a later call cannot take it.
      const next = waiting.shift()
      if (next) next()
      else running -= 1
    }
  }
}

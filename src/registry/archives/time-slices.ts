import { setImmediate } from 'node:timers/promises'

/** A fifth of the 50 ms that other requests may at most wait: several archives can be judged at once. */
const sliceMilliseconds = 10

/**
 * Returns a function for the turns of a long loop, `await pause()`. It returns at once until 10 ms have passed, and then
 * lets all other requests run first. Work that never waits for I/O would otherwise stop the whole server.
 */
export function makePause(): () => Promise<void> | undefined {
  let sliceStart = performance.now()

  async function letOthersRun(): Promise<void> {
    await setImmediate()
    sliceStart = performance.now()
  }

  return () => (performance.now() - sliceStart < sliceMilliseconds ? undefined : letOthersRun())
}

/** Returns a function that runs at most `limit` tasks at once; the others wait in the order of their calls. */
export function limitConcurrency(limit: number): <T>(task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let running = 0
  return async (task) => {
    if (running >= limit) await new Promise<void>((resolve) => waiting.push(resolve))
    else running += 1
    try {
      return await task()
    } finally {
      // The place goes to the first that waits, so that no later call can take it in between.
      const next = waiting.shift()
      if (next) next()
      else running -= 1
    }
  }
}

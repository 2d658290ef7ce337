import type { Queryable } from '../../database/database.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { listStageStates } from '../tables/staged-versions.ts'

/** How many requests wait in one process at most, and how many of one owner. */
const maxWaiting = 1_000
const maxWaitingOfOwner = 50
const lookMilliseconds = 1_000

/** A request that waits until a stage changes. */
interface Waiter {
  id: string
  owner: string
  end: () => void
}

/** Lets requests wait until a stage changes. While any waits, one statement a second reads the states for all of them. */
export interface StageWatch {
  /**
   * Returns when the stage waits no more, after the given time, when the signal is aborted, and when the server stops.
   * Throws errcode 8 when too many requests wait.
   */
  wait: (stage: { id: string; owner: string; seconds: number; signal: AbortSignal }) => Promise<void>
  /** Ends all waiting. */
  close: () => void
}

/** Opens the watch of a process. */
export function openStageWatch(db: Queryable, onError: (error: unknown) => void): StageWatch {
  const waiters = new Set<Waiter>()
  let timer: NodeJS.Timeout | undefined
  let isClosed = false

  async function look(): Promise<void> {
    try {
      const states = await listStageStates(db, [...new Set(Array.from(waiters, ({ id }) => id))])
      for (const waiter of waiters) if (states.get(waiter.id) !== 'staged') waiter.end()
    } catch (error) {
      // The next look may succeed. Nobody waits longer than the time of the request.
      onError(error)
    }
    timer = undefined
    lookLater()
  }

  function lookLater(): void {
    if (waiters.size > 0) timer ??= setTimeout(() => void look(), lookMilliseconds)
  }

  return {
    async wait({ id, owner, seconds, signal }) {
      const ofOwner = Array.from(waiters).filter((other) => other.owner === owner).length
      if (waiters.size >= maxWaiting || ofOwner >= maxWaitingOfOwner) throw tooManyWait()
      if (isClosed || signal.aborted) return
      await new Promise<void>((resolve) => {
        const waiter = { id, owner, end }
        const timeout = setTimeout(end, seconds * 1000)
        function end() {
          clearTimeout(timeout)
          signal.removeEventListener('abort', end)
          waiters.delete(waiter)
          resolve()
        }
        signal.addEventListener('abort', end)
        waiters.add(waiter)
        lookLater()
      })
    },
    close() {
      isClosed = true
      clearTimeout(timer)
      for (const { end } of waiters) end()
    },
  }
}

function tooManyWait(): Refusal {
  return new Refusal(
    errcode.resourceExhausted,
    'too many requests wait for staged versions: try again later',
    {
      retryAfterSeconds: 10,
    },
  )
}

/** Bounds for tasks of one kind. */
export interface TurnLimits {
  /** How many tasks run at once: of all owners, and of each one. */
  atOnce: number
  atOnceOfOwner: number
  /** How many tasks wait at most: of all owners, and of each one. */
  waiting: number
  waitingOfOwner: number
  /** How long a task waits at most. Without it, it waits until its turn comes. */
  waitingSeconds?: number
}

/**
 * Runs a task when its turn comes. A task of an owner who has too many running ones lets those of others pass. Throws the
 * error of `refuse` when too many tasks wait, or when it waits too long.
 */
export type InTurn = <T>(owner: string, task: () => Promise<T>) => Promise<T>

/** A task that waits. */
interface Waiting {
  owner: string
  start: () => void
  timer: NodeJS.Timeout | undefined
}

/** Opens turns. `refuse` returns the error for one task too many: of its owner, or of all together. */
export function openTurns(
  { atOnce, atOnceOfOwner, waiting, waitingOfOwner, waitingSeconds }: TurnLimits,
  refuse: (whose: 'owner' | 'all') => Error,
): InTurn {
  const queue: Waiting[] = []
  const running = new Map<string, number>()
  let all = 0

  const hasFreePlace = (owner: string) => (running.get(owner) ?? 0) < atOnceOfOwner
  const isFree = (owner: string) => all < atOnce && hasFreePlace(owner)

  function begin(owner: string): void {
    all += 1
    running.set(owner, (running.get(owner) ?? 0) + 1)
  }

  function end(owner: string): void {
    all -= 1
    const left = (running.get(owner) ?? 0) - 1
    if (left > 0) running.set(owner, left)
    else running.delete(owner)
    const next = queue.findIndex((one) => isFree(one.owner))
    if (next < 0) return
    const [started] = queue.splice(next, 1)
    if (!started) return
    clearTimeout(started.timer)
    // Before `start`, so that no later call can take the place.
    begin(started.owner)
    started.start()
  }

  function wait(owner: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const entry: Waiting = { owner, start: resolve, timer: undefined }
      queue.push(entry)
      if (waitingSeconds === undefined) return
      entry.timer = setTimeout(() => {
        queue.splice(queue.indexOf(entry), 1)
        reject(refuse(hasFreePlace(owner) ? 'all' : 'owner'))
      }, waitingSeconds * 1000)
    })
  }

  return async (owner, task) => {
    if (isFree(owner)) begin(owner)
    else {
      if (queue.filter((one) => one.owner === owner).length >= waitingOfOwner) throw refuse('owner')
      if (queue.length >= waiting) throw refuse('all')
      await wait(owner)
    }
    try {
      return await task()
    } finally {
      end(owner)
    }
  }
}

/** Bounds for tasks of one kind. */
export interface TurnLimits {
  /** How many tasks run at once: of all owners, and of each one. */
  atOnce: number
  atOnceOfOwner: number
  /** How many tasks wait at most: of all owners, and of each one. */
  waiting: number
  waitingOfOwner: number
}

/**
 * Runs a task when its turn comes. A task of an owner who has too many running ones lets those of others pass. Throws the
 * error of `refuse` when too many tasks wait.
 */
export type InTurn = <T>(owner: string, task: () => Promise<T>) => Promise<T>

/** Opens turns. `refuse` returns the error for one task too many: of its owner, or of all together. */
export function openTurns(
  { atOnce, atOnceOfOwner, waiting, waitingOfOwner }: TurnLimits,
  refuse: (whose: 'owner' | 'all') => Error,
): InTurn {
  const queue: { owner: string; start: () => void }[] = []
  const running = new Map<string, number>()
  let all = 0

  const isFree = (owner: string) => all < atOnce && (running.get(owner) ?? 0) < atOnceOfOwner

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
    // Before `start`, so that no later call can take the place.
    begin(started.owner)
    started.start()
  }

  return async (owner, task) => {
    if (isFree(owner)) begin(owner)
    else {
      if (queue.filter((one) => one.owner === owner).length >= waitingOfOwner) throw refuse('owner')
      if (queue.length >= waiting) throw refuse('all')
      await new Promise<void>((resolve) => queue.push({ owner, start: resolve }))
    }
    try {
      return await task()
    } finally {
      end(owner)
    }
  }
}

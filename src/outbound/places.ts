/** Places for requests that run at the same time. */
export interface Places {
  /** Waits for a place, in the order of the calls. Returns the function that leaves it. Throws when the signal aborts. */
  enter: (signal: AbortSignal) => Promise<() => void>
}

/** Opens a number of places. */
export function openPlaces(count: number): Places {
  const waiting = new Set<() => void>()
  let taken = 0

  function leave(): void {
    // Give the place directly to the first that waits, so that a later call cannot take it.
    const [next] = waiting
    if (next) next()
    else taken -= 1
  }

  return {
    async enter(signal) {
      signal.throwIfAborted()
      if (taken < count) taken += 1
      else {
        await new Promise<void>((resolve, reject) => {
          const enter = () => {
            waiting.delete(enter)
            signal.removeEventListener('abort', giveUp)
            resolve()
          }
          const giveUp = () => {
            waiting.delete(enter)
            reject(signal.reason)
          }
          waiting.add(enter)
          signal.addEventListener('abort', giveUp, { once: true })
        })
      }
      let isIn = true
      return () => {
        if (isIn) leave()
        isIn = false
      }
    },
  }
}

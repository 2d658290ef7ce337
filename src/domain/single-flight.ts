/** Work that runs for a key, shared by everybody who asks for it meanwhile. */
export interface SingleFlight<T> {
  /**
   * Returns the result of the work that runs for a key, or starts it. All callers get the same result or the same error.
   * When the work has ended, the next call starts it again. What `work` throws before it returns a promise reaches only
   * its own caller.
   */
  share: (key: string, work: () => Promise<T>) => Promise<T>
  /** Returns the work that runs for a key. Undefined when none does. */
  running: (key: string) => Promise<T> | undefined
  /** Starts work, also when other work runs for its key. Later calls share the new one. */
  start: (key: string, work: () => Promise<T>) => Promise<T>
  /** Lets the next call start anew, although the work still runs. */
  forget: (key: string) => void
  /** Resolves when no work runs. */
  settle: () => Promise<void>
}

/** Makes concurrent calls for one key share one run of their work. */
export function singleFlight<T>(): SingleFlight<T> {
  const flights = new Map<string, Promise<T>>()

  function start(key: string, work: () => Promise<T>): Promise<T> {
    const flight = work().finally(() => {
      if (flights.get(key) === flight) flights.delete(key)
    })
    flights.set(key, flight)
    return flight
  }

  return {
    share: (key, work) => flights.get(key) ?? start(key, work),
    running: (key) => flights.get(key),
    start,
    forget(key) {
      flights.delete(key)
    },
    async settle() {
      while (flights.size > 0) await Promise.allSettled(flights.values())
    },
  }
}

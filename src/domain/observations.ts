import { type Channel, channel } from 'node:diagnostics_channel'

/** A thing that happened and took some time. */
export interface Observation {
  seconds: number
  /** What happened, such as the name of a job or an operation of the archive store. */
  what: string
  /** How it ended, such as `ok` or `error`. Part of a metric, so it has few values. */
  outcome: string
}

/** Where observations of one kind meet those who count them. It costs nothing while nobody counts. */
export interface ObservationChannel {
  /** Whether anybody counts. Ask before work that only an observation needs. */
  readonly isWatched: boolean
  publish: (observation: Observation) => void
  /** Calls `listener` for each observation of this process. Returns a function that ends this. */
  watch: (listener: (observation: Observation) => void) => () => void
}

/*
 * Any part of the program can report here, without knowing of metrics. These are Node's diagnostics channels, so the
 * parts need no common object.
 */

/** Statements that were sent to the database. */
export const statements = open('svc:statement')
/** Operations of the archive store. */
export const storeOperations = open('svc:store')
/** Attempts of background jobs. */
export const jobAttempts = open('svc:job')
/** Checks of passwords and second factors of people who sign in. */
export const signIns = open('svc:sign-in')

function open(name: string): ObservationChannel {
  const observed: Channel = channel(name)
  return {
    get isWatched() {
      return observed.hasSubscribers
    },
    publish: (observation) => observed.publish(observation),
    watch(listener) {
      const subscriber = (message: unknown) => listener(message as Observation)
      observed.subscribe(subscriber)
      return () => {
        observed.unsubscribe(subscriber)
      }
    },
  }
}

/** Returns the outcome of a check of a password or second factor, by the status of its refusal: null when it was right. */
export function outcomeOfCheck(status: number | null): string {
  if (status === null) return 'ok'
  if (status === 403) return 'wrong'
  return status === 429 ? 'locked' : 'other'
}

/** Runs an operation and reports how long it took. The outcome is `ok` unless `outcomeOf` says otherwise. */
export async function observing<T>(
  to: ObservationChannel,
  what: string,
  operation: () => Promise<T>,
  outcomeOf: (result: T) => string = () => 'ok',
): Promise<T> {
  const started = performance.now()
  const publish = (outcome: string) =>
    to.publish({ what, outcome, seconds: (performance.now() - started) / 1000 })
  try {
    const result = await operation()
    publish(outcomeOf(result))
    return result
  } catch (error) {
    publish('error')
    throw error
  }
}

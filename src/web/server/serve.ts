import closeWithGrace from 'close-with-grace'
import type { FastifyBaseLogger } from 'fastify'
import type { Config } from '../../config.ts'
import { openForServer } from '../../database/chosen-database.ts'
import { openLog } from './log.ts'
import { sameSignalSeconds, stopSignals } from './stop-signals.ts'

/** The maximum duration of a stop. Running requests get half of it, and the database gets the rest. */
const maxStopSeconds = 20
/**
 * Signals that close-with-grace does not handle. It cannot distinguish npm's copy of a Ctrl-C from a second Ctrl-C, so
 * `stopSignals` have a separate listener. A listener for SIGSEGV and similar signals would hide a crash.
 */
const signalsLeftAlone: NonNullable<closeWithGrace.Options['skip']> = [
  ...stopSignals,
  ...(['SIGQUIT', 'SIGUSR2'] as const),
  ...(['SIGILL', 'SIGTRAP', 'SIGABRT', 'SIGBUS', 'SIGFPE', 'SIGSEGV'] as const),
]

/** Runs the server until one of `stopSignals`, then stops it cleanly. Throws when it cannot start or continue. */
export async function serve(config: Config): Promise<void> {
  const log = openLog(config.logLevel)
  const stop = stopOnSignals(log)
  try {
    await run(config, log, stop.signal)
  } finally {
    stop.end()
  }
}

async function run(config: Config, log: FastifyBaseLogger, stop: AbortSignal): Promise<void> {
  const stopRequested = new Promise<void>((resolve) => stop.addEventListener('abort', () => resolve()))
  let onWait = () => {}
  const waiting = new Promise<void>((resolve) => {
    onWait = resolve
  })
  const opening = openForServer(config, log, { signal: stop, onWait }).catch((error: unknown) => {
    if (stop.aborted) return null
    throw error
  })
  // Creating a cluster takes most of a second, and so does loading the modules, in which this process does nothing else.
  // Do both at once: load when the programs of PostgreSQL work.
  const loading = Promise.race([waiting, opening]).then(() => import('./run-server.ts'))
  const [database, { runServer }] = await Promise.all([opening, loading])
  // The stop was requested while PostgreSQL was starting.
  if (database === null) return
  try {
    await runServer(database, { config, log, stopRequested })
  } finally {
    await database.close()
  }
}

/**
 * Aborts `signal` on one of `stopSignals`. The process exits with code 1 on an uncaught error, on a second signal,
 * and when a stop takes too long, also during a start. Call `end` when the server has stopped.
 */
function stopOnSignals(log: FastifyBaseLogger): { signal: AbortSignal; end: () => void } {
  const requested = new AbortController()
  const options = { delay: maxStopSeconds * 1000, logger: false as const, skip: signalsLeftAlone }
  const grace = closeWithGrace(options, async ({ err }) => {
    if (err) {
      // After an unexpected error the state is unknown. A supervisor restarts the server.
      log.fatal(err, 'unexpected error: the process exits at once')
      process.exit(1)
    }
    requested.abort()
    // The caller of `serve` exits the process after the stop. This listener only sets the time limit.
    await new Promise(() => {})
  })
  let first: number | null = null
  const onSignal = () => {
    if (first === null) grace.close()
    first ??= Date.now()
    if (Date.now() - first > sameSignalSeconds * 1000) process.exit(1)
  }
  for (const signal of stopSignals) process.on(signal, onSignal)
  return { signal: requested.signal, end: grace.uninstall }
}

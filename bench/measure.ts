import { cpuSeconds, postgresCpuSeconds } from './cpu.ts'
import { type Load, type LoadResult, runLoad } from './load.ts'
import type { Listener } from './server.ts'
import { figure } from './table.ts'

/** The result of a load, and the processor time of the server. */
export interface Measured extends LoadResult {
  perSecond: number
  /** Microseconds of processor time for a request. Null without /proc. */
  cpuMicros: number | null
  postgresMicros: number | null
}

/** Runs a load against a server, by default in a separate process, and measures the server's processor time. */
export async function measure(
  server: Listener & { postmasterPid?: number },
  load: Omit<Load, 'port'>,
  run: (load: Load) => Promise<LoadResult> = runLoad,
): Promise<Measured> {
  const read = () => [
    cpuSeconds(server.pid),
    server.postmasterPid === undefined ? 0 : postgresCpuSeconds(server.postmasterPid),
  ]
  const before = read()
  const result = await run({ ...load, port: server.port })
  const [cpuMicros = null, postgresMicros = null] = read().map((after, i) => {
    const start = before[i] ?? null
    return after === null || start === null ? null : ((after - start) * 1e6) / result.count
  })
  return { ...result, perSecond: result.count / result.seconds, cpuMicros, postgresMicros }
}

/** Returns the requests per second of each run. */
export function ratesOf(runs: readonly Measured[]): number[] {
  return runs.map(({ perSecond }) => perSecond)
}

/** The titles of the columns of `measuredCells`. */
export const measuredHead = ['req/s', 'median ms', 'p99 ms', 'CPU µs', 'of it PostgreSQL']

/** Formats a measurement as the cells of a table. */
export function measuredCells({ perSecond, medianMs, p99Ms, cpuMicros, postgresMicros }: Measured): string[] {
  const micros =
    cpuMicros === null || postgresMicros === null
      ? ['?', '?']
      : [figure(cpuMicros + postgresMicros), figure(postgresMicros)]
  return [figure(perSecond), figure(medianMs), figure(p99Ms), ...micros]
}

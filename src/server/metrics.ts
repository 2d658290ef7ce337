import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type pg from 'pg'
import { collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { AppContext } from '../context.ts'
import type { Queryable } from '../database/database.ts'
import { countJobs, type JobCount } from '../jobs/job-rows.ts'
import { type Metrics, serveMetrics } from './serve-metrics.ts'

/** Shorter than common timeouts of a scrape. */
const maxCountSeconds = 3

/** Upper bounds in seconds. They cover a quick pull as well as an upload over a slow connection. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60]

/**
 * `/metrics` for Prometheus: the number and the duration of requests by route, the connections to the database in these
 * pools, and Node's metrics of the process. A label contains the pattern of a route, never a URL. So metrics do not show
 * who requests what, and their number is bounded. Returns registries, so that other modules can add metrics.
 * With METRICS_TOKEN, `/metrics` requires it. With METRICS_PORT, `/metrics` is on that port only, unless there is a
 * token too.
 */
export function measureRequests(
  app: FastifyInstance,
  { config, db }: AppContext,
  pools: readonly pg.Pool[],
): Metrics {
  const registry = new Registry()
  // This interval in milliseconds is part of the measured delays. The default, 10, would wake an idle process a hundred
  // times a second.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 50 })
  const durations = new Histogram({
    name: 'svc_http_request_duration_seconds',
    help: 'Time from a request to the end of its response, by the pattern of its route.',
    labelNames: ['method', 'route', 'status'],
    buckets: durationBuckets,
    registers: [registry],
  })
  const connections = new Gauge({
    name: 'svc_database_connections',
    help: 'Connections of this process to the database: busy, idle, and requests that wait for one.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const sum = (count: (pool: pg.Pool) => number) => pools.reduce((all, pool) => all + count(pool), 0)
      connections.set(
        { state: 'busy' },
        sum(({ totalCount, idleCount }) => totalCount - idleCount),
      )
      connections.set(
        { state: 'idle' },
        sum(({ idleCount }) => idleCount),
      )
      connections.set(
        { state: 'waiting' },
        sum(({ waitingCount }) => waitingCount),
      )
    },
  })

  measureJobs(registry, db)

  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? 'none'
    const seconds = reply.elapsedTime / 1000
    durations.observe({ method: request.method, route, status: reply.statusCode }, seconds)
    done()
  })
  const metrics = { common: registry, open: new Registry(), closed: new Registry() }
  serveMetrics(app, config, metrics)
  return metrics
}

/** Adds metrics of the background jobs of all processes. They are missing when the database does not respond. */
function measureJobs(registry: Registry, db: Queryable): void {
  // One scrape reads both gauges at the same time, so they share a statement.
  let counting: Promise<JobCount[]> | undefined
  const countOnce = () => {
    counting ??= Promise.race([countJobs(db), timeout()])
      .catch(() => [])
      .finally(() => {
        counting = undefined
      })
    return counting
  }
  const counts = new Gauge({
    name: 'svc_jobs',
    help: 'Background jobs of all processes by name and state: queued, active, or failed after the last attempt.',
    labelNames: ['job', 'state'],
    registers: [registry],
    async collect() {
      const jobs = await countOnce()
      counts.reset()
      for (const { name, queued, active, failed } of jobs) {
        counts.set({ job: name, state: 'queued' }, queued)
        counts.set({ job: name, state: 'active' }, active)
        counts.set({ job: name, state: 'failed' }, failed)
      }
    },
  })
  const successes = new Gauge({
    name: 'svc_job_last_success_timestamp_seconds',
    help: 'When a background job of this name last succeeded in any process.',
    labelNames: ['job'],
    registers: [registry],
    async collect() {
      const jobs = await countOnce()
      successes.reset()
      for (const { name, succeededAt } of jobs)
        if (succeededAt !== null) successes.set({ job: name }, succeededAt)
    },
  })
}

async function timeout(): Promise<never> {
  await sleep(maxCountSeconds * 1000, null, { ref: false })
  throw new Error('The database did not count the jobs in time.')
}

import type { Socket } from 'node:net'
import type { FastifyInstance } from 'fastify'
import type pg from 'pg'
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type { AppContext } from '../../context.ts'
import { measureDisk } from '../../domain/disk-space.ts'
import {
  jobAttempts,
  type ObservationChannel,
  signIns,
  statements,
  storeOperations,
} from '../../domain/observations.ts'
import { version } from '../../version.ts'
import { isFailed } from '../log-failure.ts'
import { measureInstallation } from './installation-metrics.ts'
import { inTimeForScrape, type Metrics, serveMetrics } from './serve-metrics.ts'

/** Upper bounds in seconds. They cover a quick pull as well as an upload over a slow connection. */
const durationBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60]
const statementBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 25]
const storeBuckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const jobBuckets = [0.01, 0.1, 1, 10, 60, 600, 3600]

/**
 * `/metrics` for Prometheus: the requests and the work of this process, the state of the installation, and Node's metrics.
 * A label contains the pattern of a route, never a URL. So metrics do not show who requests what, and their number is
 * bounded. Returns registries, so that other modules can add metrics.
 * With METRICS_TOKEN, `/metrics` requires it. With METRICS_PORT, `/metrics` is on that port only, unless there is a
 * token too.
 */
export function openMetrics(app: FastifyInstance, context: AppContext, pools: readonly pg.Pool[]): Metrics {
  const registry = Registry.merge([metricsOfNode()])
  measureProcess(registry, context)
  measureRequests(registry, app)
  measureTraffic(registry, app)
  measureConnections(registry, pools)
  for (const stop of measureWork(registry)) app.addHook('onClose', async () => stop())
  measureInstallation(registry, context.db)
  const metrics = { common: registry, open: new Registry(), closed: new Registry() }
  serveMetrics(app, context.config, metrics)
  return metrics
}

let nodeRegistry: Registry | undefined

/**
 * Returns the metrics of Node. They measure the process, so all servers in it share them. What measures them never ends, and
 * would keep everything of a closed server that its registry refers to.
 */
function metricsOfNode(): Registry {
  if (!nodeRegistry) {
    nodeRegistry = new Registry()
    // This interval in milliseconds is part of the measured delays. The default, 10, would wake an idle process a hundred
    // times a second.
    collectDefaultMetrics({ register: nodeRegistry, eventLoopMonitoringPrecision: 50 })
  }
  return nodeRegistry
}

function measureProcess(registry: Registry, { config }: AppContext): void {
  const build = new Gauge({
    name: 'svc_build_info',
    help: 'The version of svc and of Node.js, as labels. The value is 1.',
    labelNames: ['version', 'node'],
    registers: [registry],
  })
  build.set({ version, node: process.versions.node }, 1)
  const disk = new Gauge({
    name: 'svc_disk_bytes',
    help: 'The disk of DATA_DIR: its size, and what is free. Missing when the file system does not report it.',
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      const measured = await inTimeForScrape(measureDisk(config.dataDir))
      disk.reset()
      if (!measured) return
      disk.set({ state: 'free' }, measured.freeBytes)
      disk.set({ state: 'all' }, measured.allBytes)
    },
  })
}

function measureRequests(registry: Registry, app: FastifyInstance): void {
  const durations = new Histogram({
    name: 'svc_http_request_duration_seconds',
    help: 'Time from a request to the end of its response, by the pattern of its route.',
    labelNames: ['method', 'route', 'status'],
    buckets: durationBuckets,
    registers: [registry],
  })
  const failures = new Counter({
    name: 'svc_http_failures_total',
    help: 'Responses that are failures of the server: a status of 5xx, except for refusals like that of a full group.',
    labelNames: ['method', 'route', 'status'],
    registers: [registry],
  })
  const inFlight = new Gauge({
    name: 'svc_http_requests_in_flight',
    help: 'Requests whose response is not sent yet.',
    registers: [registry],
  })
  app.addHook('onRequest', (_request, reply, done) => {
    inFlight.inc()
    // Unlike onResponse, this also comes after a disconnect.
    reply.raw.once('close', () => inFlight.dec())
    done()
  })
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? 'none'
    const seconds = reply.elapsedTime / 1000
    const labels = { method: request.method, route, status: reply.statusCode }
    durations.observe(labels, seconds)
    if (isFailed(request, reply)) failures.inc(labels)
    done()
  })
}

/** Counts the bytes of all connections. Sockets count them already, so it costs nothing until a scrape. */
function measureTraffic(registry: Registry, app: FastifyInstance): void {
  const open = new Set<Socket>()
  const closed = { received: 0, sent: 0 }
  app.server.on('connection', (socket: Socket) => {
    open.add(socket)
    socket.once('close', () => {
      open.delete(socket)
      closed.received += socket.bytesRead
      closed.sent += socket.bytesWritten
    })
  })
  function sumOf(direction: keyof typeof closed): number {
    let sum = closed[direction]
    for (const { bytesRead, bytesWritten } of open) sum += direction === 'received' ? bytesRead : bytesWritten
    return sum
  }
  const bytes = new Counter({
    name: 'svc_http_bytes_total',
    help: 'Bytes received from clients and sent to them, with headers. Links to a bucket and nginx send others.',
    labelNames: ['direction'],
    registers: [registry],
    collect() {
      bytes.reset()
      for (const direction of ['received', 'sent'] as const) bytes.inc({ direction }, sumOf(direction))
    },
  })
}

function measureConnections(registry: Registry, pools: readonly pg.Pool[]): void {
  const sum = (count: (pool: pg.Pool) => number) => pools.reduce((all, pool) => all + count(pool), 0)
  const connections = new Gauge({
    name: 'svc_database_connections',
    help: 'Connections of this process to the database: busy, idle, and requests that wait for one.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      const busy = sum(({ totalCount, idleCount }) => totalCount - idleCount)
      connections.set({ state: 'busy' }, busy)
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
}

/** Measures what the parts of the process report. Returns functions that end this. */
function measureWork(registry: Registry): (() => void)[] {
  function measure(
    channel: ObservationChannel,
    name: string,
    { help, buckets, label }: { help: string; buckets: number[]; label?: string },
  ): () => void {
    const labelNames = label === undefined ? ['outcome'] : [label, 'outcome']
    const durations = new Histogram({ name, help, labelNames, buckets, registers: [registry] })
    return channel.watch(({ what, outcome, seconds }) =>
      durations.observe(label === undefined ? { outcome } : { [label]: what, outcome }, seconds),
    )
  }

  const checks = new Counter({
    name: 'svc_sign_in_checks_total',
    help: 'Checks of passwords and second factors: ok, wrong, or locked after too many wrong ones.',
    labelNames: ['factor', 'outcome'],
    registers: [registry],
  })
  return [
    measure(statements, 'svc_database_statement_duration_seconds', {
      help: 'Time from a statement to its result. An error may be a conflict that svc expects.',
      buckets: statementBuckets,
    }),
    measure(storeOperations, 'svc_store_operation_duration_seconds', {
      help: 'Time of operations of the archive store, until the first byte for reads.',
      buckets: storeBuckets,
      label: 'operation',
    }),
    measure(jobAttempts, 'svc_job_duration_seconds', {
      help: 'Time of the attempts of background jobs in this process. A stop of the server ends some as stopped.',
      buckets: jobBuckets,
      label: 'job',
    }),
    signIns.watch(({ what, outcome }) => checks.inc({ factor: what, outcome })),
  ]
}

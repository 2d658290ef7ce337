import { createHash, timingSafeEqual } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import type { Registry } from 'prom-client'
import type { Config } from '../../config.ts'
import { afterPatience } from '../../domain/time-slices.ts'

/** Shorter than common timeouts of a scrape. */
const maxReadSeconds = 3

/** The time between two texts. So many clients cost no more than one. */
const restMilliseconds = 250

/** The metrics of a process. */
export interface Metrics {
  /** What is in every response. */
  common: Registry
  /** Only for those who may not read `closed`: the same metrics without names that people chose. */
  open: Registry
  /** Only for operators: with the hosts of upstreams. */
  closed: Registry
}

/**
 * Serves `/metrics`. Operators read all metrics: with METRICS_TOKEN, or on METRICS_PORT. Without either setting,
 * everybody reads the metrics without the hosts of upstreams, because people choose them and their URLs may be private.
 */
export function serveMetrics(
  app: FastifyInstance,
  { host, metrics: settings }: Config,
  metrics: Metrics,
): void {
  const { contentType } = metrics.common
  const readAll = shareText(() => textOf(metrics.common, metrics.closed))
  const { port, token } = settings

  if (token !== null) {
    app.get('/metrics', { logLevel: 'warn' }, async ({ headers: { authorization } }, reply) => {
      reply.header('cache-control', 'no-store')
      if (isToken(authorization, token))
        return reply.header('content-type', contentType).send(await readAll())
      reply.code(401).header('www-authenticate', 'Bearer realm="metrics"')
      return reply.type('text/plain').send('Send METRICS_TOKEN as the bearer token.\n')
    })
  } else if (port === null) {
    const readOpen = shareText(() => textOf(metrics.common, metrics.open))
    app.get('/metrics', { logLevel: 'warn' }, async (_request, reply) => {
      reply.headers({ 'content-type': contentType, 'cache-control': 'no-store' })
      return readOpen()
    })
  }
  if (port !== null) listenForMetrics(app, { host, port }, { read: readAll, contentType })
}

/** Serves `/metrics` on a port of its own from the start of the app until its end. */
function listenForMetrics(
  app: FastifyInstance,
  address: { host: string; port: number },
  { read, contentType }: { read: () => Promise<string>; contentType: string },
): void {
  const server = createServer({ requestTimeout: 10_000 }, (request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('This port serves GET /metrics only.\n')
      return
    }
    read().then(
      (text) => response.writeHead(200, { 'content-type': contentType }).end(text),
      (error: unknown) => {
        app.log.error({ err: error }, 'the metrics cannot be read')
        response.writeHead(500).end()
      },
    )
  })
  app.addHook('onReady', async () => {
    server.listen(address)
    await once(server, 'listening').catch(({ code }: NodeJS.ErrnoException) => {
      throw new Error(
        `Metrics cannot be served on ${address.host}:${address.port} (${code}). Set METRICS_PORT to another port.`,
      )
    })
  })
  app.addHook('onClose', async () => {
    if (!server.listening) return
    server.close()
    server.closeAllConnections()
  })
}

/** Returns what was read for a scrape. Null when it fails or takes too long, so that a scrape shows the rest. */
export async function inTimeForScrape<Read>(reading: Promise<Read>): Promise<Read | null> {
  return Promise.race([reading.catch(() => null), afterPatience(maxReadSeconds * 1000, null)])
}

/** Returns whether the header has the token. Takes the same time for every wrong token. */
function isToken(authorization: string | undefined, token: string): boolean {
  const [, sent = ''] = /^bearer +(\S+)$/i.exec(authorization ?? '') ?? []
  const hash = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(hash(sent), hash(token))
}

async function textOf(...registries: Registry[]): Promise<string> {
  return (await Promise.all(registries.map((registry) => registry.metrics()))).join('')
}

/**
 * Makes simultaneous calls share one text. A text is never older than its call, so after a text the next one waits a
 * moment.
 */
function shareText(read: () => Promise<string>): () => Promise<string> {
  let next: Promise<string> | undefined
  let earliest = 0

  async function readNext(): Promise<string> {
    // Also without a rest, calls of the same moment get the promise that `next` has by then.
    await sleep(Math.max(earliest - performance.now(), 0))
    next = undefined
    earliest = performance.now() + restMilliseconds
    return read()
  }

  return () => {
    next ??= readNext()
    return next
  }
}

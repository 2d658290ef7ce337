import type { IncomingMessage } from 'node:http'
import cookie from '@fastify/cookie'
import Fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify'
import type pg from 'pg'
import { type ClaimKeeper, keepClaim } from '../../archives/store-claim.ts'
import { openArchiveStore } from '../../archives/store-owner.ts'
import type { Config } from '../../config.ts'
import type { AppContext } from '../../context.ts'
import { openStorageRoom } from '../../groups/storage-room.ts'
import { type RunningJobs, runJobs } from '../../jobs/run-jobs.ts'
import { openDocumentReader } from '../../oauth/fetch-document.ts'
import { openLastUse } from '../../oauth/last-use.ts'
import { openOutbound } from '../../outbound/outbound.ts'
import { openDownloadCounter } from '../../packages/download-counter.ts'
import { openReadmeRenderer } from '../../packages/readmes/render-readme.ts'
import { openStageWatch } from '../../packages/stages/watch.ts'
import { openIssuerKeys } from '../../publishers/issuer-keys.ts'
import { openTrustedRoots } from '../../publishers/trusted-roots.ts'
import { openArchiveMirror } from '../../upstreams/archive-mirror.ts'
import type { AuthFileEvents } from '../../upstreams/client/auth-file.ts'
import { openUpstreamClient } from '../../upstreams/client/fetch.ts'
import { openMirror } from '../../upstreams/mirror.ts'
import { openUpstreamQueries } from '../../upstreams/queries.ts'
import { sendApiError } from '../api/errors.ts'
import { api, noSuchApiEndpoint } from '../api/plugin.ts'
import { handleClientError, requestTimeoutMilliseconds } from '../client-errors.ts'
import { registryNotFound, sendRegistryError } from '../composer/http.ts'
import { registry } from '../composer/plugin.ts'
import { inviteAdmittedBodies, PatientResponse } from '../expect-continue.ts'
import { hookRoutes } from '../hooks.ts'
import { logFieldsOf } from '../log-fields.ts'
import { openNetworkTurns } from '../network-turns.ts'
import { sendOAuthError } from '../oauth/errors.ts'
import { oauthPages } from '../oauth/pages-plugin.ts'
import { noSuchOAuthEndpoint, oauth } from '../oauth/plugin.ts'
import { openTokenExchange } from '../oauth/token-exchange.ts'
import { pageNotFound } from '../page-error.ts'
import { pagePolicy, setPageHeaders, showError, showPageError, showUndecodableUrl } from '../page-scope.ts'
import { accounts } from '../pages/account/plugin.ts'
import { administration } from '../pages/admin/plugin.ts'
import { peoplesPages } from '../pages/plugin.ts'
import { registerViews } from '../pages.ts'
import { pictureRoutes } from '../pictures.ts'
import { startInTurn } from '../pipelined-requests.ts'
import { requestIdOf, traceparentOf } from '../request-id.ts'
import { sendScimError } from '../scim/errors.ts'
import { nothingHere as nothingHereForDirectories, scim } from '../scim/plugin.ts'
import { addScope } from '../scope.ts'
import { maxParamLength } from '../unmatched-requests.ts'
import { readSession } from '../visit.ts'
import { drainOnClose } from './drain.ts'
import { healthRoutes } from './health.ts'
import { jobs } from './jobs.ts'
import { openMetrics } from './metrics.ts'
import { openServerPools } from './pools.ts'
import { countUpstreams } from './upstream-metrics.ts'

/** The maximum time that a stop waits for running requests. */
const drainSeconds = 10

/**
 * Builds the whole server without listening. Tests call `inject` on it; `serve` makes it listen. It closes the client for
 * requests to other servers.
 */
export async function buildApp(
  context: AppContext,
  log: FastifyBaseLogger,
  outbound = openOutbound(context.config),
): Promise<FastifyInstance> {
  const app = Fastify({
    loggerInstance: log,
    genReqId: requestIdOf,
    logController: logResponsesOnly(),
    // Without options, pino creates a child logger in a third of the time.
    childLoggerFactory(logger, bindings, options, request) {
      const traceparent = request === undefined ? null : traceparentOf(request)
      const all = traceparent === null ? bindings : { ...bindings, traceparent }
      return Object.keys(options).length === 0 ? logger.child(all) : logger.child(all, options)
    },
    trustProxy: trustedProxies(context.config.trustProxy),
    bodyLimit: 64 * 1024,
    routerOptions: { maxParamLength },
    exposeHeadRoutes: false,
    // Headers must arrive within 10 s (Node's default is 60 s), because of slow clients. Idle connections are closed
    // after 72 s, which is longer than the 60 s of common proxies.
    keepAliveTimeout: 72_000,
    // Closes a connection without traffic after a minute, such as a stalled upload, or a client that does not read.
    connectionTimeout: 60_000,
    requestTimeout: requestTimeoutMilliseconds,
    http: { headersTimeout: 10_000, connectionsCheckingInterval: 5_000, ServerResponse: PatientResponse },
    forceCloseConnections: 'idle',
    // Fastify's default limit for a close hook is 10 s. A drain can take as long, and the stop would then fail.
    pluginTimeout: (drainSeconds + 20) * 1000,
    // Requests that arrive during a stop get a response. Fastify would refuse them in its own error format.
    return503OnClosing: false,
    rewriteUrl: originForm,
    frameworkErrors: sendUnroutable,
    clientErrorHandler: handleClientError,
    schemaController: { compilersFactory: { buildValidator: noCompiler, buildSerializer: noCompiler } },
  })
  runJobsWhileListening(app, context, log)
  app.addHook('onRequest', (request, reply, done) => {
    returnRequestId(request, reply)
    done()
  })
  serveHeadWithGet(app)
  admitRequests(app)
  warnOfUntrustedProxies(app)
  const stageWatch = openStageWatch(context.db, (err) =>
    log.warn({ err }, 'the states of staged versions could not be read'),
  )
  // Before the drain, which waits for running requests.
  app.addHook('preClose', async () => stageWatch.close())
  drainOnClose(app, drainSeconds)
  const lastUse = openLastUse(context.db, log)
  app.addHook('onClose', lastUse.flush)
  const pools = openServerPools(context.db, log)
  const sidePools: pg.Pool[] = Object.values(pools)
  app.addHook('onClose', async () => void (await Promise.all(sidePools.map((pool) => pool.end()))))
  const downloads = openDownloadCounter(pools.count, log)
  app.addHook('onClose', downloads.flush)
  const metrics = countUpstreams(openMetrics(app, context, [context.db, ...sidePools]))
  inviteAdmittedBodies(app)
  if (context.config.baseUrl.startsWith('https:')) requireHttps(app)
  await registerViews(app, { ...context, findVisitor: (request) => readSession(context, request) })
  openNetworkTurns(app)
  app.setErrorHandler(showError)
  await addScope(app, 'unmatched', async (scope) => {
    // The page for unmatched URLs needs the session cookie for its menu.
    await scope.register(cookie)
    // Before the body is read. The handler is for routes that find nothing.
    scope.addHook('onRequest', sendUnmatched)
    scope.setNotFoundHandler(sendUnmatched)
  })
  await healthRoutes(app, context)
  await pictureRoutes(app)
  await hookRoutes(app, context)
  app.addHook('onClose', outbound.close)
  await accounts(app, { ...context, outbound })
  const documents = openDocumentReader(context.db, context.config, outbound)
  await oauthPages(app, { ...context, documents })
  const issuerKeys = openIssuerKeys(outbound, log)
  const tokenExchange = openTokenExchange({ ...context, issuerKeys })
  await oauth(app, { ...context, db: pools.pull, lastUse, tokenExchange })
  const readmes = openReadmeRenderer()
  app.addHook('onClose', readmes.close)
  const authFileEvents: AuthFileEvents = {
    onError: (error) => log.error({ err: error }, 'the credentials for upstreams cannot be read'),
    onUnusedKinds: (kinds) =>
      log.warn({ kinds }, 'UPSTREAM_AUTH_FILE contains kinds of credentials that svc does not use'),
  }
  const upstreamClient = openUpstreamClient(context.config, authFileEvents, outbound)
  const mirror = openMirror(
    {
      ...context,
      db: pools.pull,
      client: upstreamClient,
      note: metrics.noteDocument,
      noteServed: metrics.noteServed,
    },
    log,
  )
  const room = openStorageRoom(context)
  const archiveMirror = openArchiveMirror(
    {
      db: pools.pull,
      client: upstreamClient,
      archives: await openArchiveStore(context.config),
      room,
      maxArchiveBytes: context.config.maxArchiveBytes,
      note: metrics.noteArchive,
    },
    log,
  )
  const upstreamQueries = openUpstreamQueries({ db: pools.pull, client: upstreamClient }, log)
  app.addHook('onClose', async () => {
    await upstreamClient.close()
    await mirror.close()
    await archiveMirror.settle()
  })
  const forTokens = {
    ...context,
    pools,
    changes: pools.change,
    lastUse,
    stageWatch,
    upstreamClient,
    issuerKeys,
    outbound,
    upstreamQueries,
  }
  await api(app, forTokens)
  await scim(app, forTokens)
  await addScope(app, 'administration', (scope) => administration(scope, { ...context, outbound }))
  await addScope(app, 'pages', (scope) =>
    peoplesPages(scope, {
      ...context,
      changes: pools.change,
      downloads,
      readmes,
      room,
      outbound,
      upstreamClient,
      archiveMirror,
      upstreamQueries,
      describeApi: async () => {
        const response = await app.inject('/api/openapi.json')
        if (response.statusCode !== 200)
          throw new Error(`the description of the API failed: ${response.statusCode}`)
        return response.json<Record<string, unknown>>()
      },
    }),
  )
  const trustedRoots = openTrustedRoots(context.config.trustedRootFile, (error) =>
    log.error({ err: error }, 'the trusted roots of Sigstore cannot be read'),
  )
  await registry(app, {
    ...context,
    trustedRoots,
    pools,
    changes: pools.change,
    downloads,
    lastUse,
    readmes,
    room,
    mirror,
    archiveMirror,
    upstreamQueries,
  })
  return app
}

/** Only the API has schemas, and sets its own compilers. Those of Fastify would take a tenth of the time of a start. */
function noCompiler(): never {
  throw new Error('Only the API has schemas.')
}

/**
 * Makes Fastify log each request once, after its response. Another line when the request arrives would cost a second
 * write and contain nothing more.
 */
function logResponsesOnly(): LogController {
  return Object.assign(new LogController(), {
    incomingRequest() {},
    requestCompleted(error: Error | null | undefined, request: FastifyRequest, reply: FastifyReply) {
      const milliseconds = Math.round(reply.elapsedTime * 100) / 100
      const completed = { req: request, res: reply, milliseconds, ...logFieldsOf(request) }
      if (error) reply.log.error({ ...completed, err: error }, 'the response could not be sent')
      else reply.log.info(completed, 'request completed')
    },
  })
}

/**
 * Runs background jobs while the process listens, and keeps the claim that some of them need. On a stop, jobs and running
 * requests get the same time to finish.
 */
function runJobsWhileListening(app: FastifyInstance, context: AppContext, log: FastifyBaseLogger): void {
  let running: RunningJobs | undefined
  let claim: ClaimKeeper | undefined
  let isClosing = false
  let stopped: Promise<void> | undefined
  app.addHook('onListen', async () => {
    const archives = await openArchiveStore(context.config)
    if (isClosing) return
    const keeper = keepClaim(context.db, archives, log)
    claim = keeper
    running = runJobs(context, jobs, log, { hasClaim: keeper.hasClaim })
  })
  app.addHook('preClose', async () => {
    isClosing = true
    stopped = running?.stop(drainSeconds).then(claim?.stop)
  })
  app.addHook('onClose', async () => stopped)
}

/** Names the request, so that people can report it and proxies can find it. */
function returnRequestId({ id }: FastifyRequest, reply: FastifyReply): void {
  reply.header('x-request-id', id)
}

/**
 * Makes each route for GET one for HEAD, too: Node sends no body then. A second route for HEAD, as Fastify would add it,
 * takes a fifth of the time in which an app is built. A route with `exposeHeadRoute: false` stays for GET alone.
 */
function serveHeadWithGet(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    if (route.method !== 'GET' || route.exposeHeadRoute === false) return
    route.method = ['GET', 'HEAD']
    route.onSend = [...[route.onSend ?? []].flat(), sendLengthOfNothing]
  })
}

/**
 * Sends the length of a response without a body, such as a redirect, to HEAD too. Fastify sends it to GET alone. Without it,
 * Node's clients do not use the connection again: they cannot know the method where they decide it.
 */
function sendLengthOfNothing(
  request: FastifyRequest,
  reply: FastifyReply,
  payload: unknown,
  done: () => void,
): void {
  const hasNothing = payload === undefined && !reply.hasHeader('content-length')
  if (request.method === 'HEAD' && hasNothing && ![204, 304].includes(reply.statusCode)) {
    reply.header('content-length', '0')
  }
  done()
}

/** Returns a request's path and query, also for the absolute form `GET http://host/path` (RFC 9112 §3.2.2). */
function originForm({ url = '/' }: IncomingMessage): string {
  if (url.startsWith('/')) return url
  const [, path] = /^https?:\/\/[^/?#]*(.*)$/is.exec(url) ?? []
  if (path === undefined) return url
  return path.startsWith('/') ? path : `/${path}`
}

/** Makes browsers use https for this host for a year (RFC 6797). Subdomains are excluded: they may be other services. */
function requireHttps(app: FastifyInstance): void {
  app.addHook('onRequest', (_request, reply, done) => {
    reply.header('strict-transport-security', 'max-age=31536000')
    done()
  })
}

/**
 * Returns the value of Fastify's `trustProxy`. For a number of proxies it is a function that Fastify calls for each
 * hop.
 */
function trustedProxies(setting: Config['trustProxy']) {
  return typeof setting === 'number' ? (_ip: string, hop: number) => hop < setting : setting
}

/**
 * Warns once of a forwarded header from a peer that TRUST_PROXY does not trust. Then everybody behind that proxy has its
 * IP, and one person who reaches a limit blocks all others.
 */
function warnOfUntrustedProxies(app: FastifyInstance): void {
  let hasWarned = false
  app.addHook('onRequest', (request, _reply, done) => {
    const { headers, ip } = request
    const isForwarded = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined
    if (isForwarded && !hasWarned && ip === request.socket.remoteAddress) {
      hasWarned = true
      const about = 'a request has a forwarded header from an IP that TRUST_PROXY does not trust'
      request.log.warn({ ip }, `${about}: if it is your proxy, all people behind it share one network`)
    }
    done()
  })
}

/** The error format of a URL prefix. */
interface Dialect {
  /** The URL paths that use it. */
  path: RegExp
  sendError: (error: Error, request: FastifyRequest, reply: FastifyReply) => unknown
  nothingHere: () => Error
}

/** All other URLs get error pages. */
const dialects: readonly Dialect[] = [
  { path: /^\/oauth2\//, sendError: sendOAuthError, nothingHere: noSuchOAuthEndpoint },
  { path: /^\/api\/scim\/[^/]+\/v2\//, sendError: sendScimError, nothingHere: nothingHereForDirectories },
  { path: /^\/api\//, sendError: sendApiError, nothingHere: noSuchApiEndpoint },
  { path: /^\/[^/]+\/[^/]+\/-\/packages\//, sendError: sendRegistryError, nothingHere: registryNotFound },
]

/** Unmatched URLs get their error in the format of the plugin that owns the URL prefix. */
function dialectOf(request: FastifyRequest): Dialect | undefined {
  return dialects.find(({ path }) => path.test(request.url))
}

/** Sends the error for a URL that cannot be decoded. No hook has run for it. */
function sendUnroutable(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const sendError = dialectOf(request)?.sendError ?? showUndecodableUrl
  returnRequestId(request, reply)
  inTurn(request, reply, () => void sendError(error, request, reply))
}

/** Runs the requests of a connection one after the other, and refuses those with several Host headers. */
function admitRequests(app: FastifyInstance): void {
  app.addHook('onRequest', (request, reply, done) => {
    inTurn(request, reply, () => {
      if (hasOneHost(request.raw)) done()
      else refuseHosts(reply)
    })
  })
}

function inTurn(request: FastifyRequest, reply: FastifyReply, start: () => void): void {
  // Read the IP now: after a disconnect the socket no longer has it.
  const { ip } = request
  startInTurn(request.raw, reply.raw, {
    start,
    onTooMany: () =>
      request.log.warn({ ip }, 'a client was disconnected: it sent too many requests without reading'),
  })
}

/**
 * Returns whether a request has at most one Host header. Node itself reads the first one and refuses a request without
 * any. A proxy could read another one than svc (RFC 9112 §3.2).
 */
function hasOneHost({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1
  }
  return hosts <= 1
}

/** As for a request without a Host header, the response has no scope's error format. */
function refuseHosts(reply: FastifyReply): void {
  const headers = { 'content-type': 'text/plain', connection: 'close' }
  reply.code(400).headers(headers).send('The request has more than one Host header.\n')
}

/** Sends the error for a request without a route: a URL or a method that is unknown, or a page with other methods. */
async function sendUnmatched(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const dialect = dialectOf(request)
  if (dialect) {
    dialect.sendError(dialect.nothingHere(), request, reply)
    return reply
  }
  setPageHeaders(reply, pagePolicy)
  const { pageUrls, supportedMethods } = request.server
  return showPageError(
    supportedMethods.includes(request.method) ? pageUrls.refuse(reply) : pageNotFound(),
    reply,
  )
}

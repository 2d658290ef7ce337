import Fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import { accounts } from './accounts/plugin.ts'
import { sendApiError } from './api/errors.ts'
import { api } from './api/plugin.ts'
import type { Config } from './config.ts'
import { drainOnClose } from './drain.ts'
import { sweepRegularly } from './expired-rows.ts'
import { healthRoutes } from './health.ts'
import { showAddressError, showError, showPageError } from './http/error-pages.ts'
import { inviteAdmittedBodies, PatientResponse } from './http/expect-continue.ts'
import { notFound } from './http/page-error.ts'
import { pages } from './http/pages.ts'
import { pagePolicy, setPageHeaders } from './http/security-headers.ts'
import { answerUnreadable } from './http/unreadable-requests.ts'
import { openLastUse } from './last-use.ts'
import { logAnswersOnly } from './log.ts'
import { sendOAuthError } from './oauth/errors.ts'
import { oauthPages } from './oauth/pages-plugin.ts'
import { oauth } from './oauth/plugin.ts'
import { peoplesPages } from './pages/plugin.ts'
import type { Parts } from './parts.ts'
import { answerError } from './registry/answers.ts'
import { registry } from './registry/plugin.ts'

/** How long a stop waits for running requests. */
const drainSeconds = 10

/** The whole server, not yet listening. Tests `inject` into it; `serve` gives it a socket. */
export async function buildApp(parts: Parts, log: FastifyBaseLogger): Promise<FastifyInstance> {
  const app = Fastify({
    loggerInstance: log,
    logController: logAnswersOnly(),
    trustProxy: trustedProxies(parts.config.trustProxy),
    bodyLimit: 64 * 1024,
    // As long as an address can be at all: each scope says itself, in its own words, what is too long.
    routerOptions: { maxParamLength: 16_384 },
    // Slow clients: headers within 10 s (Node's own bound is 60), idle connections closed after 72 s, which
    // is longer than the 60 s of the usual proxies in front.
    keepAliveTimeout: 72_000,
    // A connection on which nothing moves for a minute is closed: an upload that has stalled, a reader that sleeps.
    connectionTimeout: 60_000,
    http: { headersTimeout: 10_000, ServerResponse: PatientResponse },
    forceCloseConnections: 'idle',
    // What still arrives while the server stops is answered, not turned away in Fastify's dialect.
    return503OnClosing: false,
    frameworkErrors: answerUnroutable,
    clientErrorHandler: answerUnreadable,
  })
  drainOnClose(app, drainSeconds)
  const lastUse = openLastUse(parts.db, log)
  app.addHook('onClose', lastUse.flush)
  app.addHook('onClose', sweepRegularly(parts.db, log))
  inviteAdmittedBodies(app)
  await pages(app)
  app.setErrorHandler(showError)
  app.setNotFoundHandler((_request, reply) => {
    setPageHeaders(reply, pagePolicy)
    return showPageError(notFound(), reply)
  })
  await app.register(healthRoutes, parts)
  await app.register(accounts, parts)
  await app.register(oauthPages, parts)
  await app.register(oauth, parts)
  await app.register(api, { ...parts, lastUse })
  await app.register(peoplesPages, parts)
  await app.register(registry, { ...parts, lastUse })
  return app
}

/** A number means that many proxies stand in front; Fastify wants to be asked per hop. */
function trustedProxies(setting: Config['trustProxy']) {
  return typeof setting === 'number' ? (_address: string, hop: number) => hop < setting : setting
}

/** Whose dialect answers below a path; pages answer everywhere else. */
const dialects = [
  { path: /^\/oauth2\//, answer: sendOAuthError },
  { path: /^\/api\//, answer: sendApiError },
  { path: /^\/[^/]+\/[^/]+\/-\/packages\//, answer: answerError },
] as const

/** Answers a URL that cannot be decoded. It reaches no scope, so how it begins tells who answers. */
function answerUnroutable(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const dialect = dialects.find(({ path }) => path.test(request.url))
  const answer: (...refused: Parameters<typeof answerUnroutable>) => void =
    dialect?.answer ?? showAddressError
  answer(error, request, reply)
}

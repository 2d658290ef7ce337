import { createHmac, type Hmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { AppContext } from '../context.ts'
import { countAttempt, limitsFrom } from '../database/failure-limit.ts'
import { networkOf } from '../domain/client-ip.ts'
import { errcode, notAuthorized, Refusal } from '../domain/refusal.ts'
import { isSameSecret, makeOpaqueId } from '../domain/secrets.ts'
import { findHookSecret, queuePushed } from '../sources/sources.ts'
import { jsonType, methodNotAllowed } from './composer/http.ts'
import { sendEarly } from './early-response.ts'
import { logFailure } from './log-failure.ts'
import { refusalOf } from './refusal-of.ts'
import { addScope } from './scope.ts'
import { refuseOtherMethods } from './unmatched-requests.ts'

/** GitHub sends no larger hook. The body is hashed, and never held in memory. */
const maxHookBytes = 25 * 1024 * 1024
/** Only failures are limited. A correct signature always passes. */
const failuresPerNetwork = 120
const windowSeconds = 60

/**
 * `POST /hooks/<source>`: a Git server tells of a push. The request proves with a signature of its body, or with the secret
 * itself, that it knows the secret of the source. Nothing else of it is read: it only means that svc looks again. An unknown
 * source and a wrong signature get the same response.
 */
export async function hookRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  await addScope(app, 'hooks', async (scope) => {
    scope.setErrorHandler(sendHookError)
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', async (_request: unknown, body: unknown) => body)
    await refuseOtherMethods(scope, methodNotAllowed, async () => {
      scope.post<{ Params: { source: string } }>('/hooks/:source', {
        onRequest: (request) => admitHook(context, request),
        handler: async (request, reply) => {
          const id = request.params.source
          const { headers, ip, body } = request
          const known = await findHookSecret(context, id)
          // Without a source the body is hashed, too, and no signature fits.
          const secret = known ?? makeOpaqueId()
          const proof = await sign(secret, headers, body instanceof Readable ? body : Readable.from([]))
          if (!isSigned(headers, proof)) throw await countFailure(context, ip)
          await queuePushed(context.db, id)
          return reply.code(202).send()
        },
      })
    })
  })
}

/** Refuses a hook that cannot be right before its body arrives. */
async function admitHook(context: AppContext, { headers, ip, raw }: FastifyRequest): Promise<void> {
  if (!proofHeaders.some((name) => headers[name] !== undefined)) throw await countFailure(context, ip)
  if (Number(headers['content-length'] ?? 0) > maxHookBytes) throw tooLarge()
  // The body may have any content type. Fastify would refuse one that it cannot read.
  delete raw.headers['content-type']
}

/** What a request must have in one of the headers. */
interface Proof {
  secret: string
  /** HMAC-SHA256 of the body, in hex. */
  signature: string
  /** HMAC-SHA256 of id, time and body, as Standard Webhooks 1.0.0 has it. Null when the secret is none of its secrets. */
  standard: string | null
}

/**
 * The headers that prove that a Git server knows the secret: of GitHub, Bitbucket, Gitea, Forgejo and GitLab. GitHub and Gitea
 * also send X-Hub-Signature, with SHA-1, which proves nothing. So one header that is right is enough. GitLab signs since 19.0;
 * its time is not compared with the clock, because an old hook does no more than a new one: svc looks again.
 */
const proofs: Record<string, (proof: Proof) => string | null> = {
  'x-hub-signature-256': ({ signature }) => `sha256=${signature}`,
  'x-hub-signature': ({ signature }) => `sha256=${signature}`,
  'x-gitea-signature': ({ signature }) => signature,
  'x-forgejo-signature': ({ signature }) => signature,
  'x-gitlab-token': ({ secret }) => secret,
  'webhook-signature': ({ standard }) => standard,
}
const proofHeaders = Object.keys(proofs)

function isSigned(headers: IncomingHttpHeaders, proof: Proof): boolean {
  return Object.entries(proofs).some(([name, expect]) => {
    const [value, right] = [String(headers[name]), expect(proof)]
    // Standard Webhooks have several signatures in one header.
    const sent = name === 'webhook-signature' ? value.split(' ') : [value]
    return right !== null && sent.some((one) => isSameSecret(one, right))
  })
}

/** Signs a body as each Git server does. Throws errcode 8 for a body that is too large. */
async function sign(secret: string, headers: IncomingHttpHeaders, body: Readable): Promise<Proof> {
  const hmac = createHmac('sha256', secret)
  const standard = signStandard(secret, headers)
  let size = 0
  for await (const chunk of body.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > maxHookBytes) throw tooLarge()
    hmac.update(chunk)
    standard?.update(chunk)
  }
  return { secret, signature: hmac.digest('hex'), standard: standard && `v1,${standard.digest('base64')}` }
}

/** Begins the signature of Standard Webhooks. Null without its headers, and when the secret does not have its format. */
function signStandard(secret: string, headers: IncomingHttpHeaders): Hmac | null {
  const [, key] = /^whsec_([A-Za-z\d+/]+=*)$/.exec(secret) ?? []
  const [id, time] = [headers['webhook-id'], headers['webhook-timestamp']]
  if (key === undefined || id === undefined || time === undefined) return null
  return createHmac('sha256', Buffer.from(key, 'base64')).update(`${String(id)}.${String(time)}.`)
}

/** Counts a request without a proof against its network. Returns the refusal: 401, or 429 after too many. */
async function countFailure({ db }: AppContext, ip: string): Promise<Refusal> {
  const limits = limitsFrom(networkOf(ip), { subject: 'hooks', attempts: failuresPerNetwork, windowSeconds })
  const blockedSeconds = await countAttempt(db, limits)
  if (blockedSeconds === 0)
    return notAuthorized({ warning: 'There is no such source, or the secret of the hook is another one.' })
  return new Refusal(errcode.resourceExhausted, 'your network sends too many hooks with a wrong secret', {
    retryAfterSeconds: blockedSeconds,
  })
}

function tooLarge(): Refusal {
  return new Refusal(errcode.resourceExhausted, `the hook has more than ${maxHookBytes} bytes`, {
    status: 413,
  })
}

function sendHookError(
  thrown: Error & Partial<FastifyError>,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  // The client has disconnected before its request was complete.
  if (request.raw.destroyed && !request.raw.complete) return reply.hijack()
  const refusal = refusalOf(thrown)
  const { status, body, retryAfterSeconds } = refusal
  logFailure(request, refusal, thrown, 'a hook of a Git server failed')
  // A 401 needs a challenge (RFC 9110 §15.5.2).
  if (status === 401) reply.header('www-authenticate', 'Signature realm="hooks"')
  if (retryAfterSeconds !== undefined) reply.header('retry-after', `${retryAfterSeconds}`)
  reply.code(status).headers({ 'content-type': jsonType, 'cache-control': 'no-store' })
  return sendEarly(request, reply, Buffer.from(JSON.stringify(body)))
}

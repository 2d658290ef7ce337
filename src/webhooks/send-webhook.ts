import type pg from 'pg'
import { transaction } from '../database/database.ts'
import type { SealedSecret } from '../database/secret-key.ts'
import { cleanText } from '../domain/plain-text.ts'
import { findIdentityEvent } from '../events/identity-events.ts'
import { findRegistryEvent } from '../events/registry-events.ts'
import { enqueue, type Job, type JobContext } from '../jobs/job.ts'
import {
  describeStatus,
  headerOf,
  type Outbound,
  type OutboundResponse,
  openOutbound,
} from '../outbound/outbound.ts'
import { OutboundError } from '../outbound/outbound-error.ts'
import {
  type AboutWebhook,
  type Attempted,
  type DueDelivery,
  findDueDelivery,
  hostOf,
  noteAttempt,
  webhookJob,
} from './deliveries.ts'
import { formatMessage, messageAbout, pingMessage } from './message.ts'
import { signMessage, webhookSecrets } from './webhook-secrets.ts'
import { disableWebhook, type Webhook, webhookColumns, webhookJoins } from './webhooks.ts'

/** The seconds between an attempt that failed and the next one. After the last one the webhook is disabled. */
export const retrySeconds = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400] as const
/** Receivers must not get all retries at the same moment. */
const jitter = 0.1
/** The longest time that a Retry-After header can hold a webhook. */
const maxHeldSeconds = 86_400
/** How much of a response is read, and kept. */
const maxResponseBytes = 4_096
/** A webhook whose receiver takes longer has its job beside those of the others. */
const slowMilliseconds = 3_000
/** How many messages one job sends. The next job waits for its turn behind those of other webhooks. */
const sentAtOnce = 50

/**
 * Sends the messages to a webhook that are due, one after the other, the oldest first. So messages about one package arrive in
 * their order, unless the receiver has refused one of them. A receiver that takes long has a job of another name, so it takes
 * a slot of slow ones only. All webhooks with one host have four slots together, and two of the slow ones: so a host that stops
 * to respond delays no other.
 */
export const sendWebhookJob: Job<AboutWebhook> = {
  ...webhookJob,
  needsClaim: true,
  concurrency: 16,
  hasOwnSlots: true,
  // The receiver's failures are no errors of the job. An outage of the database must not end the deliveries.
  retry: { attempts: 1_000, delaySeconds: 5 },
  run: (context, about, signal) => sendDue(context, about, signal, { isSlow: false, limit: sentAtOnce }),
}

/** The same for a webhook whose receiver took long at the last time. It sends one message, and the next one after other webhooks. */
export const sendSlowWebhookJob: Job<AboutWebhook> = {
  ...sendWebhookJob,
  name: 'send-slow-webhook',
  concurrency: 8,
  crowd: { ...webhookJob.crowd, atOnce: 2 },
  run: (context, about, signal) => sendDue(context, about, signal, { isSlow: true, limit: 1 }),
}

/** A webhook that gets messages, with what the sender needs. */
interface Receiver extends Webhook, SealedSecret {
  reachesPrivateHosts: boolean
  isSlow: boolean
  /** How long the receiver wants no messages. */
  heldSeconds: number
}

async function sendDue(
  context: JobContext,
  about: AboutWebhook,
  signal: AbortSignal,
  { isSlow, limit }: { isSlow: boolean; limit: number },
): Promise<void> {
  const { config, db } = context
  const receiver = await findReceiver(db, about.webhookId)
  if (!receiver) return
  if (receiver.heldSeconds > 0 || receiver.isSlow !== isSlow) return queueNext(db, receiver)
  const outbound = openOutbound(config)
  const close = () => void outbound.close()
  signal.addEventListener('abort', close)
  try {
    for (let sent = 0; sent < limit; sent += 1) {
      signal.throwIfAborted()
      const delivery = await findDueDelivery(db, receiver.id)
      if (!delivery) return
      const attempt = await deliver({ ...context, outbound }, receiver, delivery)
      // What was aborted was perhaps received. The next attempt repeats it.
      if (attempt.status === null) signal.throwIfAborted()
      if (!(await noteResult(context, receiver, delivery, attempt))) return
    }
    await queueNext(db, receiver)
  } finally {
    signal.removeEventListener('abort', close)
    await outbound.close()
  }
}

/** Queues the job that sends the next messages: that of its speed, and not before the receiver wants some. */
async function queueNext(
  db: Pick<pg.Pool, 'query'>,
  { id: webhookId, url, isSlow, heldSeconds }: Pick<Receiver, 'id' | 'url' | 'isSlow' | 'heldSeconds'>,
  delaySeconds = heldSeconds,
): Promise<void> {
  const job = isSlow ? sendSlowWebhookJob : sendWebhookJob
  await enqueue(db, job, { webhookId, host: hostOf(url) }, { delaySeconds })
}

async function findReceiver(db: pg.Pool, id: string): Promise<Receiver | null> {
  const { rows } = await db.query<Receiver>(
    `select ${webhookColumns}, w.key_id as "keyId", w.sealed_secrets as sealed, w.is_slow as "isSlow",
            w.reaches_private_hosts as "reachesPrivateHosts",
            coalesce(greatest(0, extract(epoch from w.held_until - now())), 0)::float8 as "heldSeconds"
       from webhook w ${webhookJoins}
      where w.id = $1 and w.disabled_at is null`,
    [id],
  )
  return rows[0] ?? null
}

/** What became of an attempt, and how long the receiver wants no more messages. */
interface Result extends Attempted {
  retryAfterSeconds: number
}

/** Sends a message once. Never throws for a failure of the receiver. */
async function deliver(
  context: JobContext & { outbound: Outbound },
  receiver: Receiver,
  delivery: DueDelivery,
): Promise<Result> {
  const start = performance.now()
  const nothing = { status: null, response: null, retryAfterSeconds: 0, durationMs: 0 }
  const body = delivery.body ?? (await renderBody(context, receiver, delivery))
  if (body === null)
    return { ...nothing, body, failure: 'its event was removed before the message could be sent' }
  const secrets = await webhookSecrets.open(context.config, receiver.id, receiver)
  if (secrets === null)
    return {
      ...nothing,
      body,
      failure: 'the server has lost the key of the secret: restore SECRET_KEY, or rotate the secret',
    }
  const signing = receiver.formerSecretUntil === null ? secrets.slice(0, 1) : secrets
  const { messageId: id } = delivery
  const timestamp = Math.floor(Date.now() / 1000)
  const options = {
    rights: { reachesPrivateHosts: receiver.reachesPrivateHosts },
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': `${timestamp}`,
      'webhook-signature': signMessage(signing, { id, timestamp, body }),
    },
    body,
  }
  const durationMs = () => Math.round(performance.now() - start)
  try {
    return await context.outbound.request('webhook', receiver.url, options, async (response) => {
      const { status } = response
      const text = await readStart(response)
      const isAccepted = status >= 200 && status < 300
      return {
        body,
        status,
        durationMs: durationMs(),
        response: text,
        failure: isAccepted ? null : describeStatus(receiver.url, response),
        retryAfterSeconds: isAccepted ? 0 : readRetryAfter(response),
      }
    })
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    return { ...nothing, body, durationMs: durationMs(), failure: error.message }
  }
}

async function renderBody(
  { config, db }: JobContext,
  receiver: Receiver,
  { type, createdAt, eventId }: DueDelivery,
): Promise<string | null> {
  if (eventId === null)
    return formatMessage(pingMessage(receiver.id, createdAt, config.baseUrl), receiver.format)
  const event = (await findRegistryEvent(db, eventId)) ?? (await findIdentityEvent(db, eventId))
  return event && formatMessage(messageAbout(type, event, config.baseUrl), receiver.format)
}

/** Reads the start of a body, and closes the connection if there is more. Null for a private host: nothing of it is shown. */
async function readStart({ body, isPrivate }: OutboundResponse): Promise<string | null> {
  const chunks: Buffer[] = []
  let size = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      size += chunk.length
      if (size >= maxResponseBytes) break
    }
  } catch {
    // The status decides. Whether the body arrives does not matter.
  } finally {
    body.destroy()
  }
  if (isPrivate) return null
  return cleanText(Buffer.concat(chunks).subarray(0, maxResponseBytes).toString())
}

/** Returns the seconds until the next attempt after so many failed ones and one more. Null when that was the last one. */
export function nextAttemptSeconds(attempts: number): number | null {
  const seconds = retrySeconds[attempts]
  return seconds === undefined ? null : seconds * (1 + jitter * Math.random())
}

/** Returns the seconds of a Retry-After header: a number, or a date (RFC 9110 §10.2.3). At most a day. */
function readRetryAfter(response: OutboundResponse): number {
  const text = headerOf(response, 'retry-after') ?? ''
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000
  return seconds > 0 ? Math.min(seconds, maxHeldSeconds) : 0
}

/** Stores an attempt, and decides about the next one. Returns whether the job goes on with the next message. */
async function noteResult(
  { db, log }: JobContext,
  receiver: Receiver,
  delivery: DueDelivery,
  { retryAfterSeconds, ...attempt }: Result,
): Promise<boolean> {
  const { failure, status, durationMs } = attempt
  const next = nextAttemptSeconds(delivery.attempts)
  const isLast = failure !== null && (status === 410 || next === null)
  const delaySeconds = failure === null || isLast ? null : Math.max(next ?? 0, retryAfterSeconds)
  const now = { ...receiver, isSlow: durationMs > slowMilliseconds, heldSeconds: retryAfterSeconds }
  return transaction(db, async (tx) => {
    await noteAttempt(tx, delivery.id, attempt, delaySeconds)
    if (isLast) {
      const because = status === 410 ? 'the receiver wants no more messages (410 Gone)' : failure
      if (await disableWebhook(tx, receiver, because))
        log.warn({ webhook: receiver.id }, 'a webhook was disabled: its receiver fails')
      return false
    }
    const isSame = now.isSlow === receiver.isSlow && now.heldSeconds === 0
    if (!isSame)
      await tx.query(
        `update webhook set is_slow = $2, held_until = case when $3::float8 > 0 then now() + $3::float8 * interval '1 second' end where id = $1`,
        [now.id, now.isSlow, now.heldSeconds],
      )
    if (delaySeconds !== null) await queueNext(tx, now, delaySeconds)
    if (!isSame) await queueNext(tx, now)
    return isSame
  })
}

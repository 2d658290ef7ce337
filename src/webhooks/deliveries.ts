import type pg from 'pg'
import { type Queryable, sweepOf, transaction } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { readRowId } from '../domain/row-id.ts'
import { enqueue } from '../jobs/job.ts'

/** How long deliveries are kept. */
export const keptDays = 30

/** A message to one webhook, with the result of the last attempt to deliver it. */
export interface Delivery {
  id: string
  /** The header `webhook-id`, the same for each attempt. */
  messageId: string
  type: string
  createdAt: Date
  /** `waiting` for its first or next attempt. `failed` ones are not attempted again. */
  state: 'waiting' | 'delivered' | 'failed'
  attempts: number
  attemptedAt: Date | null
  /** When the next attempt is due. Null when it does not wait. */
  dueAt: Date | null
  /** The status of the response. Null without a response. */
  status: number | null
  durationMs: number | null
  /** Why the last attempt failed. */
  failure: string | null
}

/** An attempt to deliver a message. */
export interface Attempt {
  at: Date
  /** The status of the response. Null without a response. */
  status: number | null
  durationMs: number
  /** The start of the response. Null for a private host. */
  response: string | null
  /** Null when the receiver has accepted the message. */
  failure: string | null
}

/** A delivery with its request, and its newest attempts, at most 20. */
export interface DeliveryDetails extends Delivery {
  /** The body of the request. Null before the first attempt. */
  body: string | null
  /** The newest one first. */
  history: Attempt[]
}

/** How many attempts of a delivery are kept. It has 10, and 10 more each time that somebody sends it again. */
const keptAttempts = 20

/** The job that sends what is due to a webhook. `insert_events` queues it and that of slow webhooks, too. */
export const webhookJob = {
  name: 'send-webhook',
  singleton: ({ webhookId }: AboutWebhook) => webhookId,
  crowd: { of: ({ host }: AboutWebhook) => host ?? null, atOnce: 4 },
}

/** The webhook of a job. */
export interface AboutWebhook {
  webhookId: string
  /** The host of its URL: see `hostOf`. Jobs that were queued with an event have it as their crowd only. */
  host?: string
}

/** Returns the host of a receiver, for which all webhooks together have a few slots. */
export function hostOf(url: string): string {
  return new URL(url).hostname
}

const columns = `d.id, 'msg_' || replace(d.message_id::text, '-', '') as "messageId", d.type, d.created_at as "createdAt",
  case when d.due_at is not null then 'waiting' when d.failure is null then 'delivered' else 'failed' end as state,
  d.attempts, d.attempted_at as "attemptedAt", d.due_at as "dueAt", d.status, d.duration_ms as "durationMs", d.failure`

/** Lists the deliveries of a webhook, the latest first. `after` is the id of one of them. */
export async function listDeliveries(
  db: Queryable,
  webhookId: string,
  { after, limit }: ListPart,
): Promise<Delivery[]> {
  const { rows } = await db.query<Delivery>(
    `select ${columns} from webhook_delivery d
      where d.webhook_id = $1 and ($2::bigint is null or d.id < $2)
      order by d.id desc limit $3`,
    [webhookId, readRowId(after), limit],
  )
  return rows
}

/** Finds a delivery of a webhook with its attempts. Null when there is none. */
export async function findDelivery(
  db: Queryable,
  webhookId: string,
  id: string,
): Promise<DeliveryDetails | null> {
  const { rows } = await db.query<Omit<DeliveryDetails, 'history'>>(
    `select ${columns}, d.body from webhook_delivery d where d.webhook_id = $1 and d.id = $2`,
    [webhookId, readRowId(id)],
  )
  const [delivery] = rows
  return delivery ? { ...delivery, history: await listAttempts(db, delivery.id) } : null
}

async function listAttempts(db: Queryable, deliveryId: string): Promise<Attempt[]> {
  const { rows } = await db.query<Attempt>(
    `select attempted_at as at, status, duration_ms as "durationMs", response, failure
       from webhook_attempt where delivery_id = $1 order by id desc limit ${keptAttempts}`,
    [deliveryId],
  )
  return rows
}

/** Describes a delivery for the API and `--json`. */
export function describeDelivery(delivery: Delivery) {
  return {
    id: Number(delivery.id),
    type: delivery.type,
    state: delivery.state,
    status: delivery.status,
    at: (delivery.attemptedAt ?? delivery.createdAt).toISOString(),
    duration_ms: delivery.durationMs,
    attempt: delivery.attempts,
    message_id: delivery.messageId,
    failure: delivery.failure,
    next_attempt_at: delivery.dueAt?.toISOString() ?? null,
  }
}

/** Describes a delivery with its request and attempts for the API and `--json`. */
export function describeDetails(delivery: DeliveryDetails) {
  return {
    ...describeDelivery(delivery),
    request: delivery.body,
    response: delivery.history[0]?.response ?? null,
    attempts: delivery.history.map(({ at, status, durationMs, response, failure }) => ({
      at: at.toISOString(),
      status,
      duration_ms: durationMs,
      failure,
      response,
    })),
  }
}

/** A webhook that gets messages while it is enabled. */
interface Enabled {
  id: string
  url: string
  enabled: boolean
}

/** Queues a test message to a webhook. Returns the id of the delivery. Throws errcode 9 with 409 when it is disabled. */
export async function queuePing(db: pg.Pool, webhook: Enabled): Promise<string> {
  requireEnabled(webhook)
  return transaction(db, async (tx) => {
    const { rows } = await tx.query<{ id: string }>(
      `insert into webhook_delivery (webhook_id, type) values ($1, 'ping') returning id`,
      [webhook.id],
    )
    await enqueue(tx, webhookJob, { webhookId: webhook.id, host: hostOf(webhook.url) })
    return (rows[0] as { id: string }).id
  })
}

/**
 * Sends a delivery again, with the same id of the message and all its attempts. Returns false when the webhook has no such
 * delivery. Throws errcode 9 with 409 when it is disabled.
 */
export async function queueAgain(db: pg.Pool, webhook: Enabled, id: string): Promise<boolean> {
  requireEnabled(webhook)
  return transaction(db, async (tx) => {
    const { rowCount } = await tx.query(
      'update webhook_delivery set due_at = now(), attempts = 0 where webhook_id = $1 and id = $2',
      [webhook.id, readRowId(id)],
    )
    if (rowCount === 1) await enqueue(tx, webhookJob, { webhookId: webhook.id, host: hostOf(webhook.url) })
    return rowCount === 1
  })
}

/** Finds the id of the webhook of a delivery. Null when there is no such delivery. */
export async function findWebhookOf(db: Queryable, deliveryId: string): Promise<string | null> {
  const { rows } = await db.query<{ id: string }>(
    'select webhook_id as id from webhook_delivery where id = $1',
    [readRowId(deliveryId)],
  )
  return rows[0]?.id ?? null
}

function requireEnabled({ enabled }: Enabled): void {
  if (enabled) return
  throw new Refusal(errcode.failedPrecondition, 'the webhook is disabled: enable it first', { status: 409 })
}

/** Ends the wait of all deliveries of a webhook that is disabled. They can be sent again one by one. */
export async function dropWaiting(tx: pg.PoolClient, webhookId: string): Promise<void> {
  await tx.query(
    `update webhook_delivery set due_at = null, failure = coalesce(failure, 'the webhook was disabled')
      where webhook_id = $1 and due_at is not null`,
    [webhookId],
  )
}

/** A delivery whose attempt is due. */
export interface DueDelivery
  extends Pick<DeliveryDetails, 'id' | 'messageId' | 'type' | 'createdAt' | 'attempts' | 'body'> {
  eventId: string | null
}

/** Finds the delivery of a webhook that is due first. */
export async function findDueDelivery(db: Queryable, webhookId: string): Promise<DueDelivery | null> {
  const { rows } = await db.query<DueDelivery>(
    `select ${columns}, d.body, d.event_id as "eventId" from webhook_delivery d
      where d.webhook_id = $1 and d.due_at <= now() order by d.due_at, d.id limit 1`,
    [webhookId],
  )
  return rows[0] ?? null
}

/** The result of an attempt, and the body that was sent. Null when there was none to send. */
export interface Attempted extends Omit<Attempt, 'at'> {
  body: string | null
}

/** Stores an attempt. `delaySeconds` is the time until the next one, null without one. */
export async function noteAttempt(
  tx: pg.PoolClient,
  id: string,
  { body, status, durationMs, response, failure }: Attempted,
  delaySeconds: number | null,
): Promise<void> {
  await tx.query(
    `with added as (
       insert into webhook_attempt (delivery_id, status, duration_ms, response, failure)
       select id, $3, $4, $5, $6 from webhook_delivery where id = $1
     ), dropped as (
       delete from webhook_attempt
        where id in (select id from webhook_attempt where delivery_id = $1 order by id desc offset ${keptAttempts - 1})
     )
     update webhook_delivery
        set attempts = attempts + 1, attempted_at = now(), body = $2, status = $3, duration_ms = $4, failure = $6,
            due_at = case when due_at is not null then now() + $7 * interval '1 second' end
      where id = $1`,
    [id, body, status, durationMs, response, failure, delaySeconds],
  )
}

/** Deletes at most `limit` deliveries that are older than 30 days. Returns how many. */
export const deleteOldDeliveries = sweepOf(
  'webhook_delivery',
  'id',
  `created_at < now() - interval '${keptDays} days'`,
)

import type { Queryable } from '../../src/database/database.ts'

/** Returns in how many seconds the deliveries of a webhook that wait are due, the oldest first. */
export async function dueSeconds(db: Queryable, webhookId: string): Promise<number[]> {
  const { rows } = await db.query<{ seconds: number }>(
    `select extract(epoch from due_at - now())::float8 as seconds from webhook_delivery
      where webhook_id = $1 and due_at is not null order by id`,
    [webhookId],
  )
  return rows.map(({ seconds }) => seconds)
}

/** Returns how many seconds after its last attempt the oldest delivery of a webhook that waits is due. */
export async function delayOfRetry(db: Queryable, webhookId: string): Promise<number | undefined> {
  const { rows } = await db.query<{ seconds: number }>(
    `select extract(epoch from due_at - attempted_at)::float8 as seconds from webhook_delivery
      where webhook_id = $1 and due_at is not null order by id limit 1`,
    [webhookId],
  )
  return rows[0]?.seconds
}

/** Lets the next attempts of a webhook be due seconds later. */
export async function addDelay(db: Queryable, webhookId: string, seconds: number): Promise<void> {
  await db.query(
    'update webhook_delivery set due_at = due_at + make_interval(secs => $2) where webhook_id = $1',
    [webhookId, seconds],
  )
  await db.query(
    'update job set run_at = run_at + make_interval(secs => $2) where key = $1 and not is_running',
    [webhookId, seconds],
  )
}

/** Lets the time until the next attempts of a webhook be over. */
export async function passDelays(db: Queryable, webhookId: string): Promise<void> {
  await db.query('update webhook_delivery set due_at = now() where webhook_id = $1 and due_at is not null', [
    webhookId,
  ])
  await db.query('update webhook set held_until = null where id = $1', [webhookId])
  await db.query('update job set run_at = now() where key = $1 and not is_running', [webhookId])
}

/** Lets a webhook have a slow receiver. */
export async function makeSlow(db: Queryable, webhookId: string): Promise<void> {
  await db.query('update webhook set is_slow = true where id = $1', [webhookId])
}

/** Returns whether a webhook counts as slow. */
export async function isSlow(db: Queryable, webhookId: string): Promise<boolean | undefined> {
  const { rows } = await db.query<{ slow: boolean }>('select is_slow as slow from webhook where id = $1', [
    webhookId,
  ])
  return rows[0]?.slow
}

/** Ages the deliveries of a webhook by days. */
export async function ageDeliveries(db: Queryable, webhookId: string, days: number): Promise<void> {
  await db.query(
    'update webhook_delivery set created_at = created_at - make_interval(days => $2) where webhook_id = $1',
    [webhookId, days],
  )
}

/** Counts the attempts of a delivery that are stored. */
export async function countAttempts(db: Queryable, deliveryId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    'select count(*)::int as count from webhook_attempt where delivery_id = $1',
    [deliveryId],
  )
  return rows[0]?.count ?? 0
}

/** Lets the time be over in which the former secret of a webhook signs, too. */
export async function passRotation(db: Queryable, webhookId: string): Promise<void> {
  await db.query('update webhook set former_secret_until = now() where id = $1', [webhookId])
}

/** Returns the types that webhooks get about these actions. */
export async function typesOfActions(db: Queryable, actions: readonly string[]): Promise<string[]> {
  const { rows } = await db.query<{ type: string }>(
    'select distinct webhook_type_of(a) as type from unnest($1::text[]) as a where webhook_type_of(a) is not null',
    [actions],
  )
  return rows.map(({ type }) => type)
}

/** Returns everything that is stored about webhooks, as text. */
export async function storedAboutWebhooks(db: Queryable): Promise<string> {
  const tables = ['webhook', 'webhook_delivery', 'webhook_attempt', 'event', 'job']
  const read = tables.map((table) => db.query(`select * from ${table}`))
  return JSON.stringify((await Promise.all(read)).map(({ rows }) => rows))
}

/** Adds a webhook of a repository, with a message that was delivered, one that has failed, and one that waits. */
export async function aStoredWebhook(db: Queryable, repositoryId: string): Promise<void> {
  const url = 'https://ci.example.com/hooks/releases'
  await db.query(
    `with hook as (
       insert into webhook (repository_id, url, types, format, reaches_private_hosts, key_id, sealed_secrets)
       values ($1, $2, array['version.published', 'version.deleted'], 'json', false, decode(repeat('00', 8), 'hex'), '')
       returning id),
     delivery as (
       insert into webhook_delivery (webhook_id, type, due_at, attempts, attempted_at, body, status, duration_ms, failure)
       select hook.id, d.*
         from hook cross join (values
           ('version.published', null::timestamptz, 2, now(), $3, 200, 35, null),
           ('version.deleted', null, 10, now(), $3, 500, 20, 'ci.example.com responded with status 500'),
           ('ping', now() + interval '1 day', 0, null, null, null, null, null)) as d
       returning id, type)
     insert into webhook_attempt (delivery_id, attempted_at, status, duration_ms, response, failure)
     select d.id, a.*
       from delivery d cross join (values
         (now() - interval '5 seconds', 503, 20, 'try later', 'ci.example.com responded with status 503'),
         (now(), 200, 35, 'ok', null)) as a
      where d.type = 'version.published'
      order by 2`,
    [
      repositoryId,
      url,
      '{"type":"version.published","timestamp":"2026-11-21T03:25:00.000Z","data":{"group":"acme"}}',
    ],
  )
}

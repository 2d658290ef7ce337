import type pg from 'pg'
import type { AppContext } from '../context.ts'
import { accountName } from '../database/account-name.ts'
import { type Queryable, transaction } from '../database/database.ts'
import type { ListPart } from '../domain/paging.ts'
import { isPlainText } from '../domain/plain-text.ts'
import { background, type Principal } from '../domain/principal.ts'
import { errcode, Refusal } from '../domain/refusal.ts'
import { readRowId } from '../domain/row-id.ts'
import { detailsOfChange, insertEvent } from '../events/events.ts'
import { requireLivePrincipal } from '../groups/live-principal.ts'
import { lockRepository } from '../groups/repositories.ts'
import { hasSiteRights } from '../groups/site-rights.ts'
import type { Outbound } from '../outbound/outbound.ts'
import { OutboundError } from '../outbound/outbound-error.ts'
import { dropWaiting, hostOf } from './deliveries.ts'
import { choosableTypes, type MessageFormat, messageFormats } from './message-types.ts'
import { makeWebhookSecret, webhookSecrets } from './webhook-secrets.ts'

/** Whose events a webhook gets: those of a repository, of a group with its repositories, or of the site (both null). */
export interface WebhookPlace {
  groupId: string | null
  repositoryId: string | null
}

/** The settings of a webhook. */
export interface WebhookSettings {
  url: string
  /** The types of messages that it gets. Null for all, later ones too. */
  events: string[] | null
  format: MessageFormat
  enabled: boolean
}

/** A webhook: a server that gets a message when something happens. */
export interface Webhook extends WebhookPlace, WebhookSettings {
  id: string
  /** `acme/php`, `acme`, or null for the site. */
  place: string | null
  /** The account that added it. Null for the command line, `deleted account` after that account was deleted. */
  madeBy: string | null
  createdAt: Date
  /** Until when the former secret signs, too. Null when there is none. */
  formerSecretUntil: Date | null
  /** Why svc has disabled it. Null when it is enabled, and when a person has disabled it. */
  disabledBecause: string | null
}

/** How many webhooks a repository, a group and the site can have. */
const maxWebhooks = 20
const maxUrlLength = 1000
/** How long the former secret signs after a rotation. */
const rotationHours = 24

type WebhookContext = AppContext & { outbound: Outbound }

/**
 * Adds a webhook. Returns its id and its secret, which nobody can read later. Throws errcode 3 for a setting or URL that is
 * not allowed, and 8 when the place has too many webhooks.
 */
export async function addWebhook(
  context: WebhookContext,
  { place, by }: { place: WebhookPlace; by: Principal },
  { url, events = null, format = 'json' }: Pick<WebhookSettings, 'url'> & Partial<WebhookSettings>,
): Promise<{ id: string; secret: string }> {
  const { config, db } = context
  const settings = { url, events: readTypes(events), format: readFormat(format) }
  const reachesPrivateHosts = await approveUrl(context, by, url)
  const secret = makeWebhookSecret()
  const id = await transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    await requireRoom(tx, place)
    const id = await takeId(tx)
    const { keyId, sealed } = await webhookSecrets.seal(config, id, [secret])
    await tx.query(
      `insert into webhook (id, group_id, repository_id, url, host, types, format, reaches_private_hosts, key_id, sealed_secrets, made_by)
       overriding system value values ($1, $2, $3, $4, $11, $5, $6, $7, $8, $9, $10)`,
      [
        id,
        place.groupId,
        place.repositoryId,
        url,
        settings.events,
        format,
        reachesPrivateHosts,
        keyId,
        sealed,
        by.accountId,
        hostOf(url),
      ],
    )
    await noteChange(tx, by, { id, ...place }, 'add', shownSettings(settings))
    return id
  })
  return { id, secret }
}

/**
 * Changes settings of a webhook, and writes the event. A webhook that is disabled loses the messages that wait. A URL with
 * another origin makes a new secret, and the former one ends: otherwise another server would get messages that the former
 * receiver believes, and could send them there. Returns the new secret, null without one. Returns null when there is no such
 * webhook. Throws errcode 3 as `addWebhook` does.
 */
export async function changeWebhook(
  context: WebhookContext,
  { id, place, by }: { id: string; place: WebhookPlace | null; by: Principal },
  changes: Partial<WebhookSettings>,
): Promise<{ secret: string | null } | null> {
  const { config, db } = context
  const { url, events, format, enabled } = changes
  if (events !== undefined) readTypes(events)
  if (format !== undefined) readFormat(format)
  const reachesPrivateHosts = url === undefined ? null : await approveUrl(context, by, url)
  return transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    const former = await lockWebhook(tx, id, place)
    if (!former) return null
    await tx.query(
      `update webhook
          set url = coalesce($2, url), host = coalesce($8, host), reaches_private_hosts = coalesce($3, reaches_private_hosts),
              is_slow = is_slow and $2 is null, held_until = case when $2 is null then held_until end,
              types = case when $4 then $5::text[] else types end, format = coalesce($6, format),
              disabled_at = case when $7 then null when not $7 then coalesce(disabled_at, now()) else disabled_at end,
              disabled_because = case when $7 then null else disabled_because end
        where id = $1`,
      [
        id,
        url ?? null,
        reachesPrivateHosts,
        events !== undefined,
        events ?? null,
        format ?? null,
        enabled ?? null,
        url === undefined ? null : hostOf(url),
      ],
    )
    if (enabled === false) await dropWaiting(tx, id)
    const details = detailsOfChange(shownSettings(former), shownSettings(changes))
    const hasOtherUrl = url !== undefined && url !== former.url
    if (details || hasOtherUrl) await noteChange(tx, by, former, 'change', { ...details })
    if (url === undefined || originOf(url) === originOf(former.url)) return { secret: null }
    const secret = makeWebhookSecret()
    await saveSecrets(tx, config, id, [secret])
    await noteChange(tx, by, former, 'rotate', { url: originOf(url) })
    return { secret }
  })
}

/** Stores the secrets of a webhook, the newest first. A second one signs for 24 hours. */
async function saveSecrets(
  tx: pg.PoolClient,
  config: AppContext['config'],
  id: string,
  secrets: readonly string[],
): Promise<void> {
  const { keyId, sealed } = await webhookSecrets.seal(config, id, secrets)
  await tx.query(
    `update webhook set key_id = $2, sealed_secrets = $3,
            former_secret_until = case when $4 then now() + interval '${rotationHours} hours' end
      where id = $1`,
    [id, keyId, sealed, secrets.length > 1],
  )
}

/** Removes a webhook with its deliveries, and writes the event. Returns false when there is no such webhook. */
export async function removeWebhook(
  db: pg.Pool,
  by: Principal,
  { id, place }: { id: string; place: WebhookPlace | null },
): Promise<boolean> {
  return transaction(db, async (tx) => {
    const removed = await lockWebhook(tx, id, place)
    if (!removed) return false
    await tx.query('delete from webhook where id = $1', [id])
    await noteChange(tx, by, removed, 'remove', shownSettings(removed))
    return true
  })
}

/**
 * Makes a new secret for a webhook, and returns it. The former one signs for 24 hours, too. Returns null when there is no such
 * webhook.
 */
export async function rotateSecret(
  { config, db }: AppContext,
  { id, place, by }: { id: string; place: WebhookPlace | null; by: Principal },
): Promise<string | null> {
  const secret = makeWebhookSecret()
  return transaction(db, async (tx) => {
    await requireLivePrincipal(tx, by)
    const webhook = await lockWebhook(tx, id, place)
    if (!webhook) return null
    const { rows } = await tx.query<{ keyId: Buffer; sealed: Buffer }>(
      'select key_id as "keyId", sealed_secrets as sealed from webhook where id = $1',
      [id],
    )
    const [current = null] = (rows[0] && (await webhookSecrets.open(config, id, rows[0]))) ?? []
    await saveSecrets(tx, config, id, current === null ? [secret] : [secret, current])
    await noteChange(tx, by, webhook, 'rotate', { url: originOf(webhook.url) })
    return secret
  })
}

/** Disables a webhook whose receiver fails, and writes the event. Returns whether it was enabled. */
export async function disableWebhook(tx: pg.PoolClient, webhook: Webhook, because: string): Promise<boolean> {
  const { rowCount } = await tx.query(
    'update webhook set disabled_at = now(), disabled_because = $2 where id = $1 and disabled_at is null',
    [webhook.id, because],
  )
  if (rowCount !== 1) return false
  await dropWaiting(tx, webhook.id)
  const details = { url: originOf(webhook.url), reason: because }
  await noteChange(tx, background, webhook, 'disable', details)
  return true
}

/** SQL for the columns of `Webhook`, of a webhook `w` with `webhookJoins`. */
export const webhookColumns = `w.id, w.group_id as "groupId", w.repository_id as "repositoryId", w.url, w.types as events,
  w.format, w.disabled_at is null as enabled, coalesce(o.name || '/' || r.name, g.name) as place,
  ${accountName('w.made_by')} as "madeBy", w.created_at as "createdAt",
  case when w.former_secret_until > now() then w.former_secret_until end as "formerSecretUntil",
  w.disabled_because as "disabledBecause"`

/** SQL that joins the place of a webhook `w`. */
export const webhookJoins = `left join repository_group g on g.id = w.group_id
  left join repository r on r.id = w.repository_id
  left join repository_group o on o.id = coalesce(r.group_id, r.deleted_from_id)`

const isInPlace = 'w.group_id is not distinct from $1 and w.repository_id is not distinct from $2'

/** Lists the webhooks of a place, the oldest first. `after` is the id of one of them. */
export async function listWebhooks(
  db: Queryable,
  { groupId, repositoryId }: WebhookPlace,
  { after, limit }: ListPart,
): Promise<Webhook[]> {
  const { rows } = await db.query<Webhook>(
    `select ${webhookColumns} from webhook w ${webhookJoins}
      where ${isInPlace} and ($3::bigint is null or w.id > $3)
      order by w.id limit $4`,
    [groupId, repositoryId, readRowId(after), limit],
  )
  return rows
}

/** Finds a webhook of a place, or of any place if it is null. Null when there is none. */
export async function findWebhook(
  db: Queryable,
  id: string,
  place: WebhookPlace | null,
): Promise<Webhook | null> {
  const { groupId, repositoryId } = place ?? { groupId: null, repositoryId: null }
  const { rows } = await db.query<Webhook>(
    `select ${webhookColumns} from webhook w ${webhookJoins}
      where w.id = $3 and ($4 or (${isInPlace}))`,
    [groupId, repositoryId, readRowId(id), place === null],
  )
  return rows[0] ?? null
}

/** Describes a webhook for the API and `--json`. It has no secret. */
export function describeWebhook(webhook: Webhook) {
  return {
    id: Number(webhook.id),
    url: webhook.url,
    events: webhook.events,
    format: webhook.format,
    enabled: webhook.enabled,
    disabled_because: webhook.disabledBecause,
    former_secret_until: webhook.formerSecretUntil?.toISOString() ?? null,
    made_by: webhook.madeBy,
    created_at: webhook.createdAt.toISOString(),
  }
}

async function lockWebhook(
  tx: pg.PoolClient,
  id: string,
  place: WebhookPlace | null,
): Promise<Webhook | null> {
  await tx.query('select from webhook where id = $1 for update', [readRowId(id)])
  return findWebhook(tx, id, place)
}

const actions = {
  add: ['add-webhook', 'webhook-added'],
  change: ['change-webhook', 'webhook-changed'],
  rotate: ['rotate-webhook', 'webhook-rotated'],
  remove: ['remove-webhook', 'webhook-removed'],
  disable: ['disable-webhook', 'webhook-disabled'],
} as const

/** Writes the event of a change. Those of webhooks of the site belong to no group. */
async function noteChange(
  tx: pg.PoolClient,
  by: Principal,
  { id, groupId, repositoryId }: WebhookPlace & { id: string },
  what: keyof typeof actions,
  details: Record<string, unknown>,
): Promise<void> {
  const [ofPlace, ofSite] = actions[what]
  await insertEvent(tx, by, {
    action: groupId === null && repositoryId === null ? ofSite : ofPlace,
    ...(groupId !== null && { groupId }),
    repositoryId,
    details: { webhook: Number(id), ...details },
  })
}

/** Returns what of a URL is shown to everybody who sees events. Its path can be a secret, as in those of chats. */
function originOf(url: string): string {
  return new URL(url).origin
}

/** Returns settings as events show them. */
function shownSettings({ url, events, ...others }: Partial<WebhookSettings>) {
  return {
    ...(url !== undefined && { url: originOf(url) }),
    ...(events !== undefined && { events: events ?? 'all' }),
    ...(others.format !== undefined && { format: others.format }),
    ...(others.enabled !== undefined && { enabled: others.enabled }),
  }
}

function readTypes(types: string[] | null): string[] | null {
  const unknown = types?.find((type) => !(choosableTypes as string[]).includes(type))
  if (unknown !== undefined)
    throw invalid(`there is no event type ${JSON.stringify(unknown)}: use ${choosableTypes.join(', ')}`)
  if (types?.length === 0) throw invalid('choose at least one event type, or leave them out for all')
  return types
}

function readFormat(format: string): MessageFormat {
  const known = messageFormats.find((one) => one === format)
  if (known === undefined) throw invalid(`the format must be one of ${messageFormats.join(', ')}`)
  return known
}

/** Refuses a URL that messages may not be sent to. Returns whether it may be on a private host. */
async function approveUrl(
  { config, db, outbound }: WebhookContext,
  by: Principal,
  text: string,
): Promise<boolean> {
  const reachesPrivateHosts = await hasSiteRights(db, by)
  if (text.length > maxUrlLength || !isPlainText(text))
    throw invalid(`the URL must have at most ${maxUrlLength} characters`)
  const url = URL.canParse(text) ? new URL(text) : null
  if (!url || !/^https?:$/.test(url.protocol)) throw invalid('the URL must begin with https://')
  if (url.username !== '' || url.password !== '') throw invalid('the URL must not contain credentials')
  if (url.protocol === 'http:' && !(config.outbound.allowHttp && reachesPrivateHosts))
    throw invalid(
      'the URL is not https: an operator must allow it with OUTBOUND_HTTP=true, and add the webhook',
    )
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80))
  try {
    await outbound.approveHost('webhook', url.hostname, port, { reachesPrivateHosts })
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    throw new Refusal(errcode.invalidArgument, error.message, { cause: error })
  }
  return reachesPrivateHosts
}

async function requireRoom(tx: pg.PoolClient, { groupId, repositoryId }: WebhookPlace): Promise<void> {
  if (repositoryId !== null) await lockRepository(tx, repositoryId)
  if (groupId !== null)
    await tx.query('select from repository_group where id = $1 for no key update', [groupId])
  const { rows } = await tx.query<{ count: number }>(
    `select count(*)::int as count from webhook w where ${isInPlace}`,
    [groupId, repositoryId],
  )
  if ((rows[0]?.count ?? 0) < maxWebhooks) return
  const errmsg = `there are already ${maxWebhooks} webhooks here, which is the maximum: remove one`
  throw new Refusal(errcode.resourceExhausted, errmsg, { status: 403 })
}

/** Returns the id of a new webhook, for which its secret is sealed. */
async function takeId(tx: pg.PoolClient): Promise<string> {
  const { rows } = await tx.query<{ id: string }>(
    `select nextval(pg_get_serial_sequence('webhook', 'id')) as id`,
  )
  return (rows[0] as { id: string }).id
}

function invalid(errmsg: string): Refusal {
  return new Refusal(errcode.invalidArgument, errmsg)
}

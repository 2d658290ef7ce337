import { randomUUID } from 'node:crypto'
import type pg from 'pg'
import { type Queryable, transaction } from '../database/database.ts'
import { background } from '../domain/principal.ts'
import type { TokenAlgorithm } from '../domain/token-algorithm.ts'
import { insertEvent } from '../events/events.ts'
import { enqueue, type Job, type JobContext } from '../jobs/job.ts'
import { describeStatus, openOutbound } from '../outbound/outbound.ts'
import { OutboundError } from '../outbound/outbound-error.ts'
import { nextAttemptSeconds } from '../webhooks/send-webhook.ts'
import { openTokenSigner } from './id-tokens.ts'

/** How long a logout token can be used (OpenID Connect Back-Channel Logout §2.4). */
const logoutTokenSeconds = 120
const maxFailureCharacters = 500

interface AboutLogout {
  logoutId: string
}

/** A logout token to send, with the application that gets it. */
interface WaitingLogout {
  applicationId: string
  /** The account that develops the application. Null when it is not known. */
  developerId: string | null
  clientId: string
  alg: TokenAlgorithm
  url: string
  accountId: string
  sid: string
  attempts: number
}

/**
 * Sends a logout token (OPENID 258). The trigger of `openid_session` queues it (`functions/queue_openid_logout.sql`). The token
 * is signed anew for each attempt, and the attempts are those of a webhook.
 */
export const sendLogoutTokenJob: Job<AboutLogout> = {
  name: 'send-logout-token',
  singleton: ({ logoutId }) => logoutId,
  needsClaim: true,
  concurrency: 16,
  hasOwnSlots: true,
  // The receiver's failures are no errors of the job. An outage of the database must not end the attempts.
  retry: { attempts: 1_000, delaySeconds: 5 },
  async run(context, about, signal) {
    const logout = await findLogout(context.db, about.logoutId)
    if (!logout) return
    const failure = await send(context, logout, signal)
    if (failure !== null) signal.throwIfAborted()
    await noteResult(context, about, logout, failure)
  },
}

/** Null when it was sent, or the application no longer wants it. */
async function findLogout(db: pg.Pool, id: string): Promise<WaitingLogout | null> {
  const { rows } = await db.query<WaitingLogout>(
    `select c.id as "applicationId", c.developer_id as "developerId", c.client_id as "clientId", c.id_token_alg as alg, c.backchannel_logout_uri as url, l.account_id as "accountId",
            l.sid, l.attempts
       from openid_logout l join application c on c.id = l.application_id
      where l.id = $1 and c.backchannel_logout_uri is not null`,
    [id],
  )
  return rows[0] ?? null
}

/** Sends the token once. Returns why it failed. Null when the receiver has accepted it. */
async function send(
  { config, db }: JobContext,
  { clientId, alg, url, accountId, sid }: WaitingLogout,
  signal: AbortSignal,
): Promise<string | null> {
  const now = Math.floor(Date.now() / 1000)
  const token = await openTokenSigner(db, config).sign(alg, 'logout+jwt', {
    iss: config.authUrl,
    aud: clientId,
    iat: now,
    exp: now + logoutTokenSeconds,
    jti: randomUUID(),
    sub: accountId,
    sid,
    events: { 'http://schemas.openid.net/event/backchannel-logout': {} },
  })
  const outbound = openOutbound(config)
  const close = () => void outbound.close()
  signal.addEventListener('abort', close)
  // An administrator or a command has registered the URL.
  const options = {
    rights: { reachesPrivateHosts: true },
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({ logout_token: token }).toString(),
  }
  try {
    return await outbound.request('logout', url, options, async (response) => {
      // Whether the body arrives does not matter.
      response.body.on('error', () => {}).destroy()
      const isAccepted = response.status >= 200 && response.status < 300
      return isAccepted ? null : describeStatus(url, response)
    })
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error
    return error.message
  } finally {
    signal.removeEventListener('abort', close)
    await outbound.close()
  }
}

/**
 * Deletes what was delivered, and queues the next attempt of what was not. After the last one, the developer of the application
 * is told, or the site administrators if nobody is known: once a day at most, because every session may have a token.
 */
async function noteResult(
  { db, log }: JobContext,
  about: AboutLogout,
  { applicationId, developerId, clientId, url, attempts }: WaitingLogout,
  failure: string | null,
): Promise<void> {
  const drop = (tx: Queryable) => tx.query('delete from openid_logout where id = $1', [about.logoutId])
  if (failure === null) {
    await drop(db)
    return
  }
  const delaySeconds = nextAttemptSeconds(attempts)
  await transaction(db, async (tx) => {
    await noteFailure(tx, applicationId, failure, { isLost: delaySeconds === null })
    if (delaySeconds !== null) {
      await tx.query('update openid_logout set attempts = attempts + 1 where id = $1', [about.logoutId])
      return enqueue(tx, sendLogoutTokenJob, about, { delaySeconds })
    }
    await drop(tx)
    if (!(await isToldNow(tx, applicationId))) return
    const details = { url: new URL(url).origin, reason: failure }
    const event = { action: 'application-unreachable', applicationId, details } as const
    await insertEvent(tx, background, developerId === null ? event : { ...event, accountId: developerId })
  })
  if (delaySeconds === null) log.warn({ clientId, failure }, 'a logout token could not be delivered')
}

/** Stores the last failure of an application's logout tokens. `isLost` is whether it was the last attempt of one. */
async function noteFailure(
  db: Queryable,
  applicationId: string,
  failure: string,
  { isLost }: { isLost: boolean },
): Promise<void> {
  await db.query(
    `insert into openid_logout_failure as f (application_id, failure, failed_at, lost_at)
     values ($1, $2, now(), case when $3 then now() end)
     on conflict (application_id) do update
        set failure = excluded.failure, failed_at = excluded.failed_at, lost_at = coalesce(excluded.lost_at, f.lost_at)`,
    [applicationId, failure.slice(0, maxFailureCharacters), isLost],
  )
}

/** Returns whether a failure is to be told now, and stores that it is. */
async function isToldNow(db: Queryable, applicationId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `update openid_logout_failure set told_at = now()
      where application_id = $1 and coalesce(told_at, '-infinity') < now() - interval '1 day'`,
    [applicationId],
  )
  return rowCount === 1
}

/** The last failure of an application's logout tokens. */
export interface LogoutFailure {
  applicationId: string
  failure: string
  failedAt: Date
  /** When the last attempt of a token failed, so that the application was not told. Null while none was given up. */
  lostAt: Date | null
}

/** Returns the last failures of those of these applications that have one and still want logout tokens. */
export async function listLogoutFailures(
  db: Queryable,
  applicationIds: readonly string[],
): Promise<LogoutFailure[]> {
  const { rows } = await db.query<LogoutFailure>(
    `select f.application_id as "applicationId", f.failure, f.failed_at as "failedAt", f.lost_at as "lostAt"
       from openid_logout_failure f join application c on c.id = f.application_id and c.backchannel_logout_uri is not null
      where f.application_id = any($1)`,
    [applicationIds],
  )
  return rows
}

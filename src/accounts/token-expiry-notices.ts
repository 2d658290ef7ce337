import type pg from 'pg'
import type { Config } from '../config.ts'
import { type Queryable, transaction } from '../database/database.ts'
import { expiryDetails, isExpiryDue } from '../domain/expiry.ts'
import { formatTime } from '../domain/formats.ts'
import { background } from '../domain/principal.ts'
import { insertEvents } from '../events/events.ts'
import { noteExpiringDeployTokens } from '../groups/deploy-tokens.ts'
import type { Job } from '../jobs/job.ts'
import { personOf, siteOf } from '../mail/mail.ts'
import { type MailKind, queueMail } from '../mail/mail-queue.ts'

/** How many tokens one transaction takes at most. */
const tokensPerTransaction = 500

/**
 * Writes an event for each personal access token and deploy token that expires in 7 days, and again in one day. The owner of a
 * personal access token gets a mail.
 */
export const noteExpiringTokensJob: Job = {
  name: 'note-expiring-tokens',
  everySeconds: 3600,
  async run({ config, db }, _data, signal) {
    for (const note of [noteExpiringPersonalTokens, noteExpiringDeployTokens]) {
      for (let noted = tokensPerTransaction; noted === tokensPerTransaction; ) {
        signal.throwIfAborted()
        noted = await transaction(db, (tx) => note(tx, tokensPerTransaction, config))
      }
    }
  },
}

/** Notes at most `limit` tokens that expire soon, and returns how many. Tokens of disabled accounts are left out. */
async function noteExpiringPersonalTokens(
  tx: pg.PoolClient,
  limit: number,
  config: Pick<Config, 'mail'>,
): Promise<number> {
  const { rows } = await tx.query<{ id: string; accountId: string; name: string; expiresAt: Date }>(
    `update personal_token t set expiry_noted_at = now()
      where id in (
        select t.id from personal_token t join account a on a.id = t.account_id
         where ${isExpiryDue} and a.disabled_at is null
         limit $1 for update of t skip locked)
  returning t.id, t.account_id as "accountId", t.name, t.expires_at as "expiresAt"`,
    [limit],
  )
  const events = rows.map(({ id, accountId, ...token }) => ({
    action: 'token-expiring' as const,
    accountId,
    details: { ...expiryDetails(token), token: Number(id) },
  }))
  if (events.length > 0) await insertEvents(tx, background, events)
  for (const { id } of rows) await queueMail(tx, config, tokenExpiryMail, { tokenId: id })
  return rows.length
}

/** The mail that tells the owner of a token that it expires soon. */
export const tokenExpiryMail: MailKind<{ tokenId: string }> = {
  name: 'token-expires',
  async compose({ config, db }, { tokenId }) {
    const token = await findExpiringToken(db, tokenId)
    if (!token) return null
    return {
      to: personOf(token),
      subject: `A token of your account expires soon (${siteOf(config)})`,
      paragraphs: [
        `A personal access token of the account ${token.username} on ${siteOf(config)} expires soon. Programs that use it will then get an error.`,
      ],
      facts: [
        ['Token', token.name],
        ['Expires', formatTime(token.expiresAt)],
        ['Last use', token.lastUsedAt === null ? 'never' : formatTime(token.lastUsedAt)],
      ],
      link: { label: 'Create a new token', url: `${config.baseUrl}/settings/tokens` },
      advice: ['If you no longer need it, there is nothing to do.'],
    }
  },
}

interface ExpiringToken {
  username: string
  displayName: string
  email: string
  name: string
  expiresAt: Date
  lastUsedAt: Date | null
}

/** Finds a token that expires soon. Null when it was revoked or has expired in the meantime. */
async function findExpiringToken(db: Queryable, tokenId: string): Promise<ExpiringToken | null> {
  const { rows } = await db.query<ExpiringToken>(
    `select a.username, a.display_name as "displayName", a.email, t.name, t.expires_at as "expiresAt",
            t.last_used_at as "lastUsedAt"
       from personal_token t join account a on a.id = t.account_id
      where t.id = $1 and t.revoked_at is null and t.expires_at > now()
        and a.email_verified_at is not null and a.disabled_at is null`,
    [tokenId],
  )
  return rows[0] ?? null
}

import type { Queryable } from '../database/database.ts'
import { formatTime } from '../domain/formats.ts'
import { dailyNotices } from '../mail/daily-notices.ts'
import { personOf, siteOf } from '../mail/mail.ts'
import { type MailKind, queueMail } from '../mail/mail-queue.ts'

/** The owner of a token gets a mail this many days before it expires. */
const noticeDays = 7

/** Queues a mail for each personal access token that expires within 7 days, once for each token. */
export const noteExpiringTokensJob = dailyNotices({
  name: 'note-expiring-tokens',
  limit: 500,
  async note(tx, config, limit) {
    const tokenIds = await noteExpiringTokens(tx, limit)
    for (const tokenId of tokenIds) await queueMail(tx, config, tokenExpiryMail, { tokenId })
    return tokenIds.length
  },
})

/**
 * Marks at most `limit` tokens that expire soon and whose owners can get a mail. Returns their ids. It leaves out
 * tokens with a lifetime below 7 days, because their owners have just chosen the expiry.
 */
async function noteExpiringTokens(db: Queryable, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `update personal_token set expiry_noted_at = now()
      where id in (
        select t.id from personal_token t join account a on a.id = t.account_id
         where t.expires_at between now() and now() + make_interval(days => $1)
           and t.created_at < t.expires_at - make_interval(days => $1)
           and t.revoked_at is null and t.expiry_noted_at is null
           and a.email_verified_at is not null and a.disabled_at is null
         limit $2
           for update of t skip locked)
     returning id`,
    [noticeDays, limit],
  )
  return rows.map(({ id }) => id)
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

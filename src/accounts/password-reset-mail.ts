import { type Queryable, transaction } from '../database/database.ts'
import type { Principal } from '../domain/principal.ts'
import { countEvent } from '../events/counted-events.ts'
import type { Job } from '../jobs/job.ts'
import { personOf, siteOf } from '../mail/mail.ts'
import { type MailKind, queueMail } from '../mail/mail-queue.ts'
import { hasLogin, normalizeLogin } from './accounts.ts'
import { replaceResetToken, resetUrl } from './password-resets.ts'

/** A verified address of an enabled account. */
interface Addressee {
  id: string
  username: string
  displayName: string
  email: string
}

/**
 * Finds the account that requested a link, and queues the mail. The page only queues this job, so its response takes
 * the same time whether the account exists or not. An unverified email gets no link, because it may belong to a
 * stranger.
 */
export const requestPasswordResetJob: Job<{ login: string; actor: Principal }> = {
  name: 'request-password-reset',
  async run({ config, db }, { login, actor: by }) {
    await transaction(
      db,
      async (tx) => {
        const found = await findAddressee(tx, hasLogin, normalizeLogin(login))
        if (!found) return
        await countEvent(tx, by, { action: 'password-reset-requested', accountId: found.id })
        await queueMail(tx, config, passwordResetMail, { accountId: found.id })
      },
      by,
    )
  },
}

/** The mail with a link for a new password. */
export const passwordResetMail: MailKind<{ accountId: string }> = {
  name: 'password-reset',
  async compose({ config, db }, { accountId }) {
    if (!(await findAddressee(db, 'id = $1', accountId))) return null
    const token = await replaceResetToken(db, accountId)
    // Read the email after the link was made. A later change of the email ends the link.
    const found = await findAddressee(db, 'id = $1', accountId)
    if (!found || !token) return null
    return {
      to: personOf(found),
      subject: `A new password for ${siteOf(config)}`,
      paragraphs: [
        `Somebody asked for a new password for the account ${found.username} on ${siteOf(config)}.`,
      ],
      link: { label: 'Set a new password', url: resetUrl(config, token) },
      advice: [
        'The link works once, for an hour. Setting the password ends all your sessions.',
        'If you did not ask for it, ignore this mail: your password stays as it is.',
      ],
    }
  },
}

async function findAddressee(db: Queryable, condition: string, value: string): Promise<Addressee | null> {
  const { rows } = await db.query<Addressee>(
    `select id, username, display_name as "displayName", email from account
      where (${condition}) and email_verified_at is not null and disabled_at is null`,
    [value],
  )
  return rows[0] ?? null
}

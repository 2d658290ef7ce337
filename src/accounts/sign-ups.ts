import { transaction } from '../database/database.ts'
import type { Principal } from '../domain/principal.ts'
import type { Job } from '../jobs/job.ts'
import { personOf, siteOf } from '../mail/mail.ts'
import { type MailKind, queueMail } from '../mail/mail-queue.ts'
import { insertInvitation } from './invitations.ts'
import { invitationMail } from './invite.ts'

/**
 * Queues the mail for an email that somebody signs up with (SIGN_UP=open). The page only queues this job, so that its
 * response takes the same time whether the email belongs to an account or not.
 */
export const requestSignUpJob: Job<{ email: string; actor: Principal }> = {
  name: 'request-sign-up',
  async run({ config, db }, { email, actor: by }) {
    if (config.signUp !== 'open') return
    await transaction(
      db,
      async (tx) => {
        const { rows } = await tx.query<{ id: string }>(
          'select id from account where lower(email) = lower($1) and email_verified_at is not null',
          [email],
        )
        const known = rows[0]
        if (known) {
          await queueMail(tx, config, knownAddressMail, { accountId: known.id })
          return
        }
        const about = { madeBy: 'sign-up', inviterId: null, email, target: null } as const
        const { id } = await insertInvitation(tx, by, { ...about, isSentByMail: true, token: null })
        await queueMail(tx, config, invitationMail, { invitationId: id })
      },
      by,
    )
  },
}

/** The mail to a person who signs up with the email of an existing account. Only a verified email gets it. */
export const knownAddressMail: MailKind<{ accountId: string }> = {
  name: 'known-address',
  async compose({ config, db }, { accountId }) {
    const { rows } = await db.query<{ username: string; displayName: string; email: string }>(
      `select username, display_name as "displayName", email from account
        where id = $1 and email_verified_at is not null and disabled_at is null`,
      [accountId],
    )
    if (!rows[0]) return null
    return {
      to: personOf(rows[0]),
      subject: `You have an account on ${siteOf(config)}`,
      paragraphs: [
        `Somebody asked for an account on ${siteOf(config)} with this email address. You have one already, with the username ${rows[0].username}.`,
      ],
      link: { label: 'Forgot your password? Set a new one', url: `${config.baseUrl}/password-reset` },
      advice: ['If it was not you, ignore this mail.'],
    }
  },
}

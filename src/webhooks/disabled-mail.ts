import type { Queryable } from '../database/database.ts'
import { listAdminsToTell } from '../groups/admins.ts'
import { personOf, siteOf } from '../mail/mail.ts'
import type { MailKind } from '../mail/mail-queue.ts'
import { findWebhook, webhookPageUrl } from './webhooks.ts'

/** The mail that tells an admin that svc has disabled a webhook. */
export const webhookDisabledMail: MailKind<{ webhookId: string; accountId: string }> = {
  name: 'webhook-disabled',
  async compose({ config, db }, { webhookId, accountId }) {
    const webhook = await findWebhook(db, webhookId, null)
    if (!webhook || webhook.disabledBecause === null) return null
    if (!(await listAdminsToTell(db, webhook)).includes(accountId)) return null
    const admin = await findPerson(db, accountId)
    if (!admin) return null
    const place = webhook.place ?? siteOf(config)
    return {
      to: personOf(admin),
      subject: `A webhook of ${place} was disabled (${siteOf(config)})`,
      paragraphs: [
        `A webhook of ${place} was disabled, because its receiver fails. It gets no more messages until somebody enables it.`,
      ],
      facts: [
        ['Receiver', new URL(webhook.url).origin],
        ['Reason', webhook.disabledBecause],
      ],
      link: { label: 'Open the webhook', url: webhookPageUrl(config.baseUrl, webhook) },
      advice: [
        'Repair the receiver, enable the webhook, and send the messages again that it has missed. If you no longer need it, remove it.',
      ],
    }
  },
}

interface Person {
  username: string
  displayName: string
  email: string
}

async function findPerson(db: Queryable, accountId: string): Promise<Person | null> {
  const { rows } = await db.query<Person>(
    'select username, display_name as "displayName", email from account where id = $1',
    [accountId],
  )
  return rows[0] ?? null
}

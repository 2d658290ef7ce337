import type { Config } from '../config.ts'
import type { Queryable } from '../database/database.ts'
import { enqueue, type Job, type JobContext } from '../jobs/job.ts'
import { deliver } from './delivery.ts'
import type { Mail } from './mail.ts'

/**
 * A kind of mail. Its queued data must contain no secret. A secret of a link is made by `compose`, when the mail is
 * sent, and only its hash is stored: so neither the queue nor a backup ever contains a link that works.
 */
export interface MailKind<Data = unknown> {
  /** Kebab-case. It is stored with queued mails: do not rename it. */
  name: string
  /** Makes the mail. Null when there is nothing to send any more. It runs again for every attempt to deliver. */
  compose(context: JobContext, data: Data): Promise<Mail | null>
}

interface QueuedMail {
  kind: string
  data: unknown
}

const queue = { name: 'send-mail' }

/**
 * Queues a mail. Pass the client of the transaction that makes it necessary: both commit or neither does. Returns
 * whether a mail was queued. Without SMTP_URL none is.
 */
export async function queueMail<Data>(
  db: Queryable,
  { mail }: Pick<Config, 'mail'>,
  kind: MailKind<Data>,
  data: Data,
): Promise<boolean> {
  if (mail === null) return false
  await enqueue<QueuedMail>(db, queue, { kind: kind.name, data })
  return true
}

/**
 * The job that sends queued mails, two at once in a process, so that a slow mail server leaves room for other jobs. A
 * mail server that is down delays a mail: 14 attempts within about 26 hours.
 */
export function sendMailJob(kinds: readonly MailKind<never>[]): Job {
  const byName = new Map(kinds.map((kind) => [kind.name, kind as MailKind]))
  return {
    ...queue,
    needsClaim: true,
    concurrency: 2,
    hasOwnSlots: true,
    retry: { attempts: 14, delaySeconds: 30 },
    async run(context, queued, signal) {
      const { kind, data } = queued as QueuedMail
      const { mail: settings } = context.config
      const found = byName.get(kind)
      // A newer release may have queued it: one of its processes takes it later.
      if (!found) throw new Error(`This release does not know the kind of mail ${kind}.`)
      if (settings === null) {
        context.log.warn({ mail: kind }, 'SMTP_URL is not set any more: a queued mail was dropped')
        return
      }
      const mail = await found.compose(context, data)
      if (mail === null) return
      signal.throwIfAborted()
      await deliver(settings, context.config, mail, signal)
      context.log.info({ mail: kind }, 'a mail was sent')
    },
  }
}

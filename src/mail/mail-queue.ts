import type { Config } from '../config.ts'
import type { Queryable } from '../database/database.ts'
import { enqueue, enqueueAll, type Job, type JobContext } from '../jobs/job.ts'
import { deliver } from './delivery.ts'
import type { Mail } from './mail.ts'

/**
 * A kind of mail. Its queued data must contain no secret. A secret of a link is made by `compose`, when the mail is
 * sent, and only its hash is stored: so neither the queue nor a backup ever contains a link that works.
 */
export interface MailKind<Data = unknown> {
  /** Kebab-case. It is stored with queued mails: do not rename it. */
  name: string
  /** Whether many people get it at once. Such mails have a queue of their own, so that they delay no other. */
  isBulk?: true
  /** Makes the mail. Null when there is nothing to send any more. It runs again for every attempt to deliver. */
  compose(context: JobContext, data: Data): Promise<Mail | null>
}

interface QueuedMail {
  kind: string
  data: unknown
}

const queue = { name: 'send-mail' }
const bulkQueue = { name: 'send-bulk-mail' }
/** The names of the jobs that send mails. */
export const mailQueues: readonly string[] = [queue.name, bulkQueue.name]
const queueOf = ({ isBulk = false }: { isBulk?: boolean }) => (isBulk ? bulkQueue : queue)

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
  await enqueue<QueuedMail>(db, queueOf(kind), { kind: kind.name, data })
  return true
}

/** Queues mails to many people in one statement, in the transaction that makes them necessary. Without SMTP_URL none is. */
export async function queueMails<Data>(
  db: Queryable,
  { mail }: Pick<Config, 'mail'>,
  kind: MailKind<Data>,
  all: readonly Data[],
): Promise<void> {
  if (mail === null || all.length === 0) return
  const mails = all.map((data): QueuedMail => ({ kind: kind.name, data }))
  await enqueueAll(db, queueOf(kind), mails)
}

/**
 * The jobs that send queued mails, two at once of each queue in a process, so that a slow mail server leaves room for other
 * jobs. A mail server that is down delays a mail: 14 attempts within about 26 hours.
 */
export function sendMailJobs(kinds: readonly MailKind<never>[]): Job[] {
  return [queue, bulkQueue].map((one) => sendMailJob(one, kinds))
}

function sendMailJob({ name }: { name: string }, kinds: readonly MailKind<never>[]): Job {
  const byName = new Map(kinds.map((kind) => [kind.name, kind as MailKind]))
  return {
    name,
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

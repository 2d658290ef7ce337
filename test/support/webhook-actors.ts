import type pg from 'pg'
import { operator, type Principal } from '../../src/domain/principal.ts'
import type { Job } from '../../src/jobs/job.ts'
import { runDueJobs } from '../../src/jobs/run-jobs.ts'
import { openOutbound } from '../../src/outbound/outbound.ts'
import { openLog } from '../../src/web/server/log.ts'
import { listDeliveries } from '../../src/webhooks/deliveries.ts'
import { sendSlowWebhookJob, sendWebhookJob } from '../../src/webhooks/send-webhook.ts'
import {
  addWebhook,
  findWebhook,
  type WebhookPlace,
  type WebhookSettings,
} from '../../src/webhooks/webhooks.ts'
import type { TestApp } from './app.ts'

const log = openLog('silent')

/** The webhooks of the whole site. */
export const site: WebhookPlace = { groupId: null, repositoryId: null }

/** A webhook. The operator adds it, unless somebody else does. */
export async function aWebhook(
  t: TestApp,
  place: Partial<WebhookPlace>,
  wanted: Pick<WebhookSettings, 'url'> & Partial<WebhookSettings>,
  by: Principal = operator,
) {
  const outbound = openOutbound(t.config)
  const context = { config: t.config, db: t.db, outbound }
  const { id, secret } = await addWebhook(context, { place: { ...site, ...place }, by }, wanted).finally(
    () => void outbound.close(),
  )
  return {
    id,
    secret,
    find: () => findWebhook(t.db, id, null),
    /** Its deliveries, the oldest first. */
    deliveries: async () => (await listDeliveries(t.db, id, { after: null, limit: 100 })).reverse(),
  }
}

/** The jobs that send messages. */
export const webhookJobs = [sendWebhookJob as Job, sendSlowWebhookJob as Job]

/** Sends the messages that are due, as the server does. */
export async function sendMessages({ config, db }: Pick<TestApp, 'config'> & { db: pg.Pool }): Promise<void> {
  await runDueJobs({ config, db }, webhookJobs, log)
}

import type { FastifyInstance } from 'fastify'
import type { Queryable } from '../../database/database.ts'
import { findMaintenance } from '../../database/installation.ts'
import { findVisibleGroup } from '../../groups/groups.ts'
import { countJobs } from '../../jobs/job-rows.ts'
import { mailQueues } from '../../mail/mail-queue.ts'
import { nobody, page } from '../pages.ts'
import { type Health, openHealth } from '../server/health.ts'
import { showGroup } from './group/group.ts'
import type { PagesContext } from './permit.ts'

/** What the page says beside the parts of the server, if the database responds. */
interface Work {
  /** Null when the server sends no mails. */
  mail: 'works' | 'fails' | null
  /** When the last `svc backup` ended, for people who are signed in. Null when there was none. */
  backedUpAt: Date | null
}

const statusPage = page<{ health: Health; work: Work | null }>('pages/status')

/**
 * `GET /status`: what works, for people. Programs read `/readyz`, which names the reasons. A group that was called
 * `status` before this page existed keeps the URL.
 */
export async function statusRoutes(app: FastifyInstance, context: PagesContext): Promise<void> {
  const { config, db } = context
  const check = await openHealth(context)

  app.get('/status', async (request, reply) => {
    const health = await check(request.log)
    // Without a database nobody is known. The page says so, instead of failing.
    if (health.database !== null) return statusPage(reply.code(503), nobody, { health, work: null })
    const session = await app.findVisitor(request)
    const group = await findVisibleGroup(db, 'status', session?.account.id ?? null)
    if (group) return showGroup(context, session, request, reply, group)
    if (health.store !== null) reply.code(503)
    const work = await readWork(db, config.mail !== null)
    return statusPage(reply, session ?? nobody, { health, work })
  })
}

async function readWork(db: Queryable, sendsMail: boolean): Promise<Work> {
  const [jobs, maintenance] = await Promise.all([countJobs(db), findMaintenance(db)])
  const hasFailed = jobs.some(({ name, failed }) => mailQueues.includes(name) && failed > 0)
  const mail = hasFailed ? 'fails' : 'works'
  return { mail: sendsMail ? mail : null, backedUpAt: maintenance.get('backup') ?? null }
}

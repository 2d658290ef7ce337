import type { FastifyInstance, FastifyRequest } from 'fastify'
import { findAccess } from '../access.ts'
import { findChangesTimestamp, listChanges } from '../documents/document-changes.ts'
import { errcode } from '../errors.ts'
import type { RegistryContext } from './registry-request.ts'
import { readRegistryRequest } from './registry-request.ts'
import { sendRegistryJson } from './responses.ts'

/** Ten-thousandths of a second since 1970, as mirrors of the public registry send them. */
const moment = /^\d{1,15}$/

/**
 * Returns to mirrors what changed since their last request (COMPOSER A2). A document that is named twice does no
 * harm; a missing one would never be fetched. The first request of a mirror is refused with the timestamp to begin
 * with. Each response has the timestamp of the next request; while there are more changes, it is that of the next
 * part.
 */
export async function changesRoute(app: FastifyInstance, { db, requireAccess }: RegistryContext) {
  app.get('/metadata/changes.json', async (request, reply) => {
    const target = readRegistryRequest(request)
    const since = sinceOf(request)
    // A separate statement: the response time must be the same for a hidden and a missing repository.
    const { repositoryId } = requireAccess(target, await findAccess(db, target), 'pull')
    reply.header('cache-control', 'private, no-cache')
    if (since !== null) return sendRegistryJson(reply, 200, await listChanges(db, repositoryId, since))
    return sendRegistryJson(reply, 400, {
      errcode: errcode.invalidArgument,
      errmsg: 'since must be a timestamp from an earlier response: begin with this one',
      timestamp: await findChangesTimestamp(db),
    })
  })
}

function sinceOf({ query }: FastifyRequest): number | null {
  const { since } = query as { since?: unknown }
  return typeof since === 'string' && moment.test(since) ? Number(since) : null
}

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { errcode } from '../../domain/refusal.ts'
import { findAccess } from '../../groups/access.ts'
import { findChangesTimestamp, listChanges } from '../../packages/documents/document-changes.ts'
import { type RegistryContext, readRegistryRequest, sendRegistryJson } from './http.ts'

/** A timestamp in ten-thousandths of a second since 1970. Mirrors of Packagist send this format. */
const moment = /^\d{1,15}$/

/**
 * Sends the changes since the last request of a mirror (COMPOSER A2). A document that is listed twice does no harm, but
 * a missing document would never be fetched. The first request of a mirror is refused with the timestamp to begin with.
 * Each response has the timestamp for the next request. When there are more changes, that timestamp leads to the next
 * part.
 */
export async function changesRoute(app: FastifyInstance, { db, requireAccess }: RegistryContext) {
  app.get('/metadata/changes.json', async (request, reply) => {
    const target = readRegistryRequest(request)
    const since = sinceOf(request)
    // Use a separate statement, so that the response time is the same for a hidden and a missing repository.
    const { repositoryId } = requireAccess(target, await findAccess(db, target), 'pull')
    if (since !== null) return sendRegistryJson(reply, 200, await listChanges(db, repositoryId, since))
    return sendRegistryJson(reply, 400, {
      errcode: errcode.invalidArgument,
      errmsg:
        'since must be a timestamp from an earlier response. Begin with the timestamp of this response.',
      timestamp: await findChangesTimestamp(db),
    })
  })
}

function sinceOf({ query }: FastifyRequest): number | null {
  const { since } = query as { since?: unknown }
  return typeof since === 'string' && moment.test(since) ? Number(since) : null
}

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { findAccess } from '../access.ts'
import type { RegistryContext } from '../context.ts'
import { findChangesTimestamp, listChanges } from '../documents/documents.ts'
import { errcode } from '../errors.ts'
import { sendJson } from './answers.ts'
import { readDoor } from './door.ts'

/** Ten-thousandths of a second since 1970, as mirrors of the public registry send them. */
const moment = /^\d{1,15}$/

/**
 * Tells mirrors what changed since they last asked (COMPOSER A2). A document that is named twice does no harm; one that
 * is left out would never be fetched. A mirror that asks for the first time is told where to begin. Each answer has a
 * timestamp to ask with next; while there is more, it is the one of the next part.
 */
export async function changesRoute(app: FastifyInstance, { db, admit }: RegistryContext) {
  app.get('/metadata/changes.json', async (request, reply) => {
    const door = readDoor(request)
    const since = sinceOf(request)
    // Its own statement: to list a hidden repository's changes would take longer than for a missing one.
    const { repositoryId } = admit(door, await findAccess(db, door), 'pull')
    reply.header('cache-control', 'private, no-cache')
    if (since !== null) return sendJson(reply, 200, await listChanges(db, repositoryId, since))
    return sendJson(reply, 400, {
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

import type { FastifyInstance, FastifyRequest } from 'fastify'
import { findAccess } from '../access.ts'
import type { RegistryContext } from '../context.ts'
import { listChanges } from '../documents/documents.ts'
import { errcode } from '../errors.ts'
import { sendJson } from './answers.ts'
import { readDoor } from './door.ts'

/** Ten-thousandths of a second since 1970, as mirrors of the public registry send them. */
const moment = /^\d{1,15}$/

/**
 * What changed since a mirror last asked (COMPOSER A2): a document named twice harms nobody, one left out would never
 * be fetched. A mirror that asks for the first time is told where to begin.
 */
export async function changesRoute(app: FastifyInstance, { db, admit }: RegistryContext) {
  app.get('/metadata/changes.json', async (request, reply) => {
    const door = readDoor(request)
    const since = sinceOf(request)
    // Its own statement: to list a hidden repository's changes would take longer than for a missing one.
    const { repositoryId } = admit(door, await findAccess(db, door), 'pull')
    const found = await listChanges(db, repositoryId, since)
    reply.header('cache-control', 'private, no-cache')
    if (since !== null) return sendJson(reply, 200, { actions: found.actions, timestamp: found.timestamp })
    return sendJson(reply, 400, {
      errcode: errcode.invalidArgument,
      errmsg: 'since must be a timestamp from an earlier answer: begin with this one',
      timestamp: found.timestamp,
    })
  })
}

function sinceOf({ query }: FastifyRequest): number | null {
  const { since } = query as { since?: unknown }
  return typeof since === 'string' && moment.test(since) ? Number(since) : null
}

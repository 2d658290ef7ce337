import type { FastifyInstance } from 'fastify'
import { findAccess } from '../access.ts'
import type { RegistryContext } from '../context.ts'
import { composerAdvisory } from '../documents/warnings.ts'
import { errcode, RegistryError } from '../errors.ts'
import { toLowerAscii } from '../manifest/package-name.ts'
import { listAdvisoriesOf } from '../tables/advisories.ts'
import { sendJson } from './answers.ts'
import { readDoor } from './door.ts'

/** As many as Composer's own registry answers at once. */
const maxNames = 1000

/**
 * What `composer audit` asks (COMPOSER A8). A package of ours without advisories is answered with an empty list, so
 * that Composer asks no other repository about it; what is not ours is left out, for Composer warns of answers that it
 * did not ask for.
 */
export async function securityAdvisoryRoutes(app: FastifyInstance, { db, admit }: RegistryContext) {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(
    '*',
    { parseAs: 'string', bodyLimit: 512 * 1024 },
    async (_request: unknown, body: string) => body,
  )
  app.post<{ Body: string | undefined }>('/security-advisories', async (request, reply) => {
    const door = readDoor(request)
    const { repositoryId } = admit(door, await findAccess(db, door), 'pull')
    const found = await listAdvisoriesOf(db, repositoryId, readNames(request.body))
    const pairs = found.map(({ name, advisories }) => [name, advisories.map(composerAdvisory)])
    return sendJson(reply, 200, { advisories: Object.fromEntries(pairs) })
  })
}

/** The values of `packages[]`, `packages[0]`, … in a form. Throws errcode 3 for more of them than are answered. */
function readNames(form = ''): string[] {
  const names = Array.from(new URLSearchParams(form))
    .filter(([key, name]) => /^packages\[\d*\]$/.test(key) && !name.includes('\0'))
    .map(([, name]) => toLowerAscii(name))
  // Silence about the rest would pass for "no advisories".
  if (names.length > maxNames) {
    throw new RegistryError(errcode.invalidArgument, `too many packages: more than ${maxNames}`)
  }
  return names
}

import type { FastifyInstance } from 'fastify'
import type { LastUse } from '../last-use.ts'
import type { Parts } from '../parts.ts'
import { admit } from './access.ts'
import { answerError, notFound } from './answers.ts'
import { openArchiveVolume } from './archives/archive-volume.ts'
import { makeByteCache } from './byte-cache.ts'
import { changesRoute } from './changes.ts'
import { param } from './door.ts'
import { downloadRoutes } from './download.ts'
import { metadataRoutes } from './metadata.ts'
import { notifyRoutes } from './notify.ts'
import { refuseOtherMethods } from './other-methods.ts'
import type { RegistryParts } from './parts.ts'
import { searchRoutes } from './search.ts'
import { securityAdvisoryRoutes } from './security-advisories.ts'
import { uploadRoutes } from './upload.ts'

const everyRoute = [
  metadataRoutes,
  downloadRoutes,
  notifyRoutes,
  searchRoutes,
  changesRoute,
  securityAdvisoryRoutes,
  uploadRoutes,
]

/** How much of the documents' bytes a process remembers, and as much of the archives'. */
const cacheBytes = 64 * 1024 * 1024

/** The Composer registries of all repositories: everything below {registry_url}, in one dialect (DESIGN §7). */
export async function registry(app: FastifyInstance, given: Parts & { lastUse: LastUse }): Promise<void> {
  const parts: RegistryParts = {
    ...given,
    volume: await openArchiveVolume(given.config.dataDir),
    documentCache: makeByteCache(cacheBytes),
    archiveCache: makeByteCache(cacheBytes),
    admit(...request) {
      const admission = admit(...request)
      if (admission.actor) given.lastUse.note(admission.actor)
      return admission
    },
  }

  async function addRoutes(scope: FastifyInstance): Promise<void> {
    for (const routes of everyRoute) {
      await scope.register(routes, parts)
    }
  }

  async function scope(registries: FastifyInstance): Promise<void> {
    registries.setErrorHandler(answerError)
    registries.addHook('onRequest', async (request) => {
      // PostgreSQL's texts know no NUL, so nothing is named with one.
      if (
        Object.values(request.params as Record<string, string>)
          .join('')
          .includes('\0')
      )
        throw notFound()
    })
    await refuseOtherMethods(registries, () => addRoutes(registries))
    // Whoever opens the registry's address in a browser wants the repository's page.
    registries.get('/', async (request, reply) =>
      reply.redirect(
        `/${encodeURIComponent(param(request, 'group'))}/${encodeURIComponent(param(request, 'name'))}`,
      ),
    )
    registries.all('/*', {
      onRequest: async () => {
        throw notFound()
      },
      handler: async () => undefined,
    })
  }

  await app.register(scope, { prefix: '/:group/:name/-/packages' })
}

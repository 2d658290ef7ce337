import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { openSidePool } from '../database/side-pool.ts'
import { readBasicCredentials } from '../http/basic-credentials.ts'
import type { LastUse } from '../jobs/last-use.ts'
import { admit } from './access.ts'
import { openArchiveStore } from './archives/open-store.ts'
import type { RegistryContext } from './context.ts'
import { openDownloadCounter } from './download-counter.ts'
import { answerError, notFound } from './protocol/answers.ts'
import { changesRoute } from './protocol/changes.ts'
import { distRoute } from './protocol/dist.ts'
import { param } from './protocol/door.ts'
import { metadataRoutes } from './protocol/metadata.ts'
import { notifyRoutes } from './protocol/notify.ts'
import { refuseOtherMethods } from './protocol/other-methods.ts'
import { searchRoutes } from './protocol/search.ts'
import { securityAdvisoryRoutes } from './protocol/security-advisories.ts'
import { uploadRoutes } from './protocol/upload.ts'
import { openArchiveMirror } from './upstreams/archives.ts'
import type { UpstreamClient } from './upstreams/fetch.ts'

const everyRoute = [
  metadataRoutes,
  distRoute,
  notifyRoutes,
  searchRoutes,
  changesRoute,
  securityAdvisoryRoutes,
  uploadRoutes,
]

/** The Composer registries of all repositories: everything below {registry_url}, in one dialect (DESIGN §7). */
export async function registry(
  app: FastifyInstance,
  given: AppContext &
    Pick<RegistryContext, 'changes' | 'readmes' | 'mirror'> & {
      lastUse: LastUse
      upstreamClient: UpstreamClient
    },
): Promise<void> {
  // One connection of its own: counting must never keep a pull waiting.
  const countingDb = openSidePool(given.db, 1, (error) =>
    app.log.warn({ err: error }, 'a database connection broke'),
  )
  const downloads = openDownloadCounter(countingDb, app.log)
  app.addHook('onClose', async () => {
    await downloads.flush()
    await countingDb.end()
  })
  const archives = await openArchiveStore(given.config)
  const { maxArchiveBytes } = given.config
  const archiveMirror = openArchiveMirror(
    { db: given.db, client: given.upstreamClient, archives, maxArchiveBytes },
    app.log,
  )
  app.addHook('onClose', async () => {
    await given.upstreamClient.close()
    await archiveMirror.settle()
  })
  const context: RegistryContext = {
    ...given,
    archives,
    archiveMirror,
    downloads,
    admit(...request) {
      const admission = admit(...request)
      if (admission.actor) given.lastUse.note(admission.actor)
      return admission
    },
  }

  async function addRoutes(scope: FastifyInstance): Promise<void> {
    for (const routes of everyRoute) {
      await scope.register(routes, context)
    }
  }

  async function scope(registries: FastifyInstance): Promise<void> {
    registries.setErrorHandler(answerError)
    await readBasicCredentials(registries)
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

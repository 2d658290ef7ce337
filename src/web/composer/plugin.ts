import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { openArchiveStore } from '../../archives/store-owner.ts'
import type { AppContext } from '../../context.ts'
import { scopesOf } from '../../domain/permissions.ts'
import type { Refusal } from '../../domain/refusal.ts'
import { registryResource, siteResource } from '../../domain/resources.ts'
import { requireAccess } from '../../groups/access.ts'
import type { LastUse } from '../../oauth/last-use.ts'
import { readBasicCredentials } from '../basic-credentials.ts'
import { nameResource } from '../bearer-challenge.ts'
import { handleInTurn } from '../network-turns.ts'
import { addScope } from '../scope.ts'
import { refuseAllOthers, refuseOtherMethods } from '../unmatched-requests.ts'
import { auditRoute } from './audit.ts'
import { changesRoute } from './change-feed.ts'
import { distRoute } from './dist.ts'
import {
  acceptText,
  methodNotAllowed,
  param,
  type RegistryContext,
  registryNotFound,
  sendRegistryError,
} from './http.ts'
import { metadataRoutes } from './metadata.ts'
import { notifyRoutes } from './notify.ts'
import { policyRoute } from './policy.ts'
import { provenanceRoute } from './provenance.ts'
import { feedRoutes } from './release-feed.ts'
import { searchRoutes } from './search.ts'
import { uploadRoutes } from './upload.ts'

const everyRead = [metadataRoutes, distRoute, searchRoutes, changesRoute, provenanceRoute]
const everyTextRoute = [notifyRoutes, auditRoute, policyRoute]

/**
 * Serves the Composer registries of all repositories. This is everything below {registry_url}, with one error format
 * (CONTRACT 7.1).
 */
export async function registry(
  app: FastifyInstance,
  given: AppContext & Omit<RegistryContext, 'archives' | 'requireAccess'> & { lastUse: LastUse },
): Promise<void> {
  const archives = await openArchiveStore(given.config)
  const context: RegistryContext = {
    ...given,
    archives,
    requireAccess(target, access, act, about) {
      const granted = requireAccess(target, access, act, given.config.baseUrl, about)
      given.lastUse.note(granted.by)
      return granted
    },
  }

  async function addRoutes(registries: FastifyInstance): Promise<void> {
    for (const routes of everyRead) await routes(registries, context)
    await addScope(registries, 'texts', async (texts) => {
      acceptText(texts)
      for (const routes of everyTextRoute) await routes(texts, context)
    })
    await addScope(registries, 'uploads', (uploads) => uploadRoutes(uploads, context))
    const pageOf = (request: FastifyRequest) =>
      `/${encodeURIComponent(param(request, 'group'))}/${encodeURIComponent(param(request, 'name'))}`
    // The registry URL without its slash leads to the registry.
    registries.get('/', { prefixTrailingSlash: 'no-slash' }, async (request, reply) =>
      reply.redirect(`${pageOf(request)}/-/packages/`, 308),
    )
    // A browser that opens the registry URL is redirected to the repository's page.
    registries.get('/', { prefixTrailingSlash: 'slash' }, async (request, reply) =>
      reply.redirect(pageOf(request)),
    )
  }

  async function scope(registries: FastifyInstance): Promise<void> {
    registries.setErrorHandler(sendRegistryError)
    const resourceOf = (request: FastifyRequest) =>
      registryResource(
        encodeURIComponent(param(request, 'group')),
        encodeURIComponent(param(request, 'name')),
      )
    nameResource(registries, given.config.baseUrl, resourceOf, scopesOf('pull'))
    await readBasicCredentials(registries)
    registries.addHook('onRequest', refuseNul)
    const refusals = { wrongMethod: methodNotAllowed, nothingHere: registryNotFound }
    await refuseAllOthers(registries, refusals, () => addRoutes(registries))
  }

  async function feeds(scope: FastifyInstance): Promise<void> {
    handleInTurn(scope)
    scope.setErrorHandler(sendRegistryError)
    nameResource(scope, given.config.baseUrl, () => siteResource, scopesOf('pull'))
    await readBasicCredentials(scope)
    scope.addHook('onRequest', refuseNul)
    await refuseOtherMethods(scope, methodNotAllowed, () => feedRoutes(scope, context))
  }

  await addScope(app, 'registries', scope, '/:group/:name/-/packages')
  await addScope(app, 'feeds', feeds)
}

/** Refuses names with NUL. PostgreSQL cannot store NUL in text, so no such name exists. */
function refuseNul({ params }: FastifyRequest, _reply: FastifyReply, done: (error?: Refusal) => void): void {
  const names = Object.values(params as Record<string, string>)
  done(names.some((name) => name.includes('\0')) ? registryNotFound() : undefined)
}

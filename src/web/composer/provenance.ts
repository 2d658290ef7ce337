import type { FastifyInstance } from 'fastify'
import { findProvenance } from '../../packages/tables/provenance.ts'
import {
  param,
  type RegistryContext,
  readRegistryRequest,
  registryNotFound,
  sendRegistryText,
} from './http.ts'

/**
 * `GET integrity/<vendor>/<package>/<version>/provenance`: the attestations of a version, as a provenance object (PEP 740).
 * Whoever may pull gets it, as long as the archive of the version exists.
 */
export async function provenanceRoute(
  app: FastifyInstance,
  { pools, requireAccess }: RegistryContext,
): Promise<void> {
  app.get('/integrity/:vendor/:package/:version/provenance', async (request, reply) => {
    const target = readRegistryRequest(request)
    const packageName = `${param(request, 'vendor')}/${param(request, 'package')}`
    const found = await findProvenance(pools.pull, target, {
      packageName,
      version: param(request, 'version'),
    })
    requireAccess(target, found.access, 'pull', { packageName })
    if (found.document === null) throw registryNotFound('this version has no attestations')
    return sendRegistryText(reply, found.document)
  })
}

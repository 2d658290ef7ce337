import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import type { AppContext } from '../../../context.ts'
import { readProvenance } from '../../../packages/tables/provenance.ts'
import { readQuery, text } from '../../forms.ts'
import { PageError } from '../../page-error.ts'
import { findPackageView, findShownVersion, type PackageRoute, packagePath } from './package-view.ts'

const ProvenanceQuery = z.object({ version: text })

/** `…/-/provenance?version=`: the provenance object of a version, for people. Programs use a URL of the registry instead. */
export async function provenancePageRoute(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get<PackageRoute>(`${packagePath}/-/provenance`, async (request, reply) => {
    const view = await findPackageView(context, request)
    const { id, version } = await findShownVersion(context, view, readQuery(ProvenanceQuery, request).version)
    const document = await readProvenance(context.db, id)
    if (document === null) throw new PageError(404, `Version ${version} has no attestations.`)
    return reply.header('content-type', 'application/json').send(Buffer.from(document))
  })
}

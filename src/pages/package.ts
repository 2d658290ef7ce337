import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { readSession } from '../accounts/visitor.ts'
import type { AppContext } from '../context.ts'
import { readQuery, text } from '../http/forms.ts'
import { pageNotFound } from '../http/page-error.ts'
import { nobody, page } from '../http/pages.ts'
import { openArchiveStore } from '../registry/archives/store-owner.ts'
import { loadReadme, type ReadmeRenderer } from '../registry/readmes/render-readme.ts'
import { findPackage, type ListedPackage } from '../registry/tables/listed-packages.ts'
import {
  type DescribedVersion,
  findDescribedVersion,
  findVersion,
  type ListedVersion,
  listVersions,
} from '../registry/tables/listed-versions.ts'
import type { RenderedReadme } from '../registry/tables/readmes.ts'
import { findVisibleRepository, type VisibleRepository } from '../repositories/repositories.ts'
import { type ManifestSummary, readManifest } from './manifest.ts'

/** The number of versions on a page. A link leads to the next ones. */
const versionsPerPage = 300

const packagePage = page<{
  repository: VisibleRepository
  about: ListedPackage
  shown: DescribedVersion
  manifest: ManifestSummary
  versions: ListedVersion[]
  /** The version after which the list starts. Null when it starts with the newest. */
  after: string | null
  /** The version after which the next page starts. Null on the last page. */
  next: string | null
  readme: RenderedReadme
}>('pages/package')

const PackageQuery = z.object({ version: text, after: text })

interface Params {
  group: string
  name: string
  vendor: string
  package: string
}

/** `GET /<group>/<name>/packages/<vendor>/<package>`: its versions, requirements and how to install it (DESIGN §4). */
export async function packagePageRoutes(
  app: FastifyInstance,
  context: AppContext & { readmes: ReadmeRenderer },
): Promise<void> {
  const { config, db, readmes } = context
  const archives = await openArchiveStore(config)

  app.get<{ Params: Params }>('/:group/:name/packages/:vendor/:package', async (request, reply) => {
    const { params } = request
    const session = await readSession(context, request)
    const repository = await findVisibleRepository(db, params, session?.account.id ?? null)
    const about = repository && (await findPackage(db, repository.id, `${params.vendor}/${params.package}`))
    const query = readQuery(PackageQuery, request)
    const [asked, after] = [query.version || null, query.after || null]
    const shown = about && (await findDescribedVersion(db, about.id, asked))
    if (!repository || !about || !shown) throw pageNotFound()
    const last = after === null ? null : await findVersion(db, about.id, after)
    if (after !== null && !last) throw pageNotFound()
    const part = { after: last?.id ?? null, limit: versionsPerPage + 1 }
    const found = await listVersions(db, about.id, 'undeleted', part)
    if (found.length === 0) throw pageNotFound()
    const versions = found.slice(0, versionsPerPage)
    return packagePage(reply, session ?? nobody, {
      repository,
      about,
      shown,
      manifest: readManifest(shown.metadata),
      versions,
      after,
      next: found.length > versionsPerPage ? (versions.at(-1)?.version ?? null) : null,
      readme: await loadReadme({ db, archives, readmes }, shown),
    })
  })
}

import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { readSession } from '../accounts/visitor.ts'
import type { AppContext } from '../context.ts'
import { isAtLeast } from '../domain/permissions.ts'
import { readQuery, text } from '../http/forms.ts'
import { pageNotFound } from '../http/page-error.ts'
import { nobody, page } from '../http/pages.ts'
import { type ListedPackage, listOfferedPackages } from '../registry/tables/listed-packages.ts'
import { type ListedMirror, listMirrors } from '../registry/upstreams/tables/mirrored-packages.ts'
import { findVisibleRepository, registryUrl, type VisibleRepository } from '../repositories/repositories.ts'

const packagesPerPage = 50
const mirrorsPerPage = 200

const RepositoryQuery = z.object({ q: text, after: text })

const repositoryPage = page<{
  repository: VisibleRepository
  mayPush: boolean
  packages: ListedPackage[]
  /** Packages of upstreams, and names that wait for approval; the first ones. */
  mirrored: ListedMirror[]
  search: string
  /** The name after which the next page starts. Null on the last page. */
  next: string | null
  setUp: SetUp
}>('pages/repository')

/** The values for the commands on a page. */
export interface SetUp {
  /** {registry_url} */
  registryUrl: string
  /** Composer stores credentials by host and port. */
  host: string
  /** netrc stores credentials by host only. */
  hostname: string
  isHttps: boolean
}

/** `GET /<group>/<name>`: a repository's packages, and how to use its registry (DESIGN §4, SPEC 4.5, 4.6). */
export async function repositoryPageRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get<{ Params: { group: string; name: string } }>('/:group/:name', async (request, reply) => {
    const session = await readSession(context, request)
    const repository = await findVisibleRepository(context.db, request.params, session?.account.id ?? null)
    if (!repository) throw pageNotFound()
    const { q, after } = readQuery(RepositoryQuery, request)
    const search = q.trim()
    const found = await listOfferedPackages(context.db, repository.id, search, {
      after,
      limit: packagesPerPage + 1,
    })
    const packages = found.slice(0, packagesPerPage)
    const mirrored = await listMirrors(context.db, repository.id, {
      search,
      after: null,
      limit: mirrorsPerPage,
    })
    return repositoryPage(reply, session ?? nobody, {
      repository,
      mirrored,
      mayPush: isAtLeast(repository.role, 'developer'),
      packages,
      search,
      next: found.length > packagesPerPage ? (packages.at(-1)?.name ?? null) : null,
      setUp: setUpOf(context.config.baseUrl, repository.path),
    })
  })
}

/** Returns the values for a repository's commands, from the public URL of the service. */
export function setUpOf(baseUrl: string, path: string): SetUp {
  const { host, hostname, protocol } = new URL(baseUrl)
  return { registryUrl: registryUrl(baseUrl, path), host, hostname, isHttps: protocol === 'https:' }
}

import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { readSession } from '../accounts/visitor.ts'
import type { AppContext } from '../context.ts'
import { readQuery, text } from '../http/forms.ts'
import { nobody, page } from '../http/pages.ts'
import { type FoundPackage, searchAllPackages } from '../registry/tables/listed-packages.ts'
import { type ReachedRepository, searchRepositories } from '../repositories/reached.ts'

/** More than this is not listed: a longer word finds fewer. */
const maxFound = 50

const searchPage = page<{
  search: string
  packages: FoundPackage[]
  repositories: ReachedRepository[]
  maxFound: number
}>('pages/search')

const SearchQuery = z.object({ q: text })

/** `GET /search?q=`: packages and repositories that the visitor may see. */
export async function searchPageRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get('/search', async (request, reply) => {
    const session = await readSession(context, request)
    const accountId = session?.account.id ?? null
    const search = readQuery(SearchQuery, request).q.trim().slice(0, 200)
    const [packages, repositories] =
      search === ''
        ? [[], []]
        : await Promise.all([
            searchAllPackages(context.db, accountId, search, maxFound),
            searchRepositories(context.db, accountId, search, maxFound),
          ])
    return searchPage(reply, session ?? nobody, { search, packages, repositories, maxFound })
  })
}

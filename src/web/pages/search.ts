import type { FastifyInstance } from 'fastify'
import * as z from 'zod'
import { type AccountDetails, listAccounts } from '../../accounts/accounts.ts'
import type { AppContext } from '../../context.ts'
import { isAtLeast } from '../../domain/permissions.ts'
import {
  type AccessibleRepository,
  accountReader,
  listAccessibleRepositories,
  searchRepositories,
} from '../../groups/accessible-repositories.ts'
import { type FoundArchive, listFoundArchives, readSha256 } from '../../packages/tables/found-archives.ts'
import { type FoundPackage, searchAllPackages } from '../../packages/tables/found-packages.ts'
import { type SearchedMirror, searchAllMirrors } from '../../upstreams/tables/searched-mirrors.ts'
import { readQuery, text } from '../forms.ts'
import { nobody, page } from '../pages.ts'
import { anybody } from '../visit.ts'

/** The maximum number of results. A longer search text finds fewer. */
const maxFound = 50
const firstPart = { after: null, limit: maxFound }
/** How many repositories the page offers to search in. */
const maxOffered = 5

const searchPage = page<{
  search: string
  packages: FoundPackage[]
  /** Packages from upstreams. */
  mirrors: SearchedMirror[]
  repositories: AccessibleRepository[]
  /** Versions whose archive has the SHA-256 that was searched. */
  archives: FoundArchive[]
  /** Null for people who are not site administrators. */
  people: AccountDetails[] | null
  maxFound: number
  /** Repositories of the account in which to search, when nothing was found. */
  searchable: AccessibleRepository[]
  /** A repository to which the account may publish, when nothing was found. */
  publishable: AccessibleRepository | null
}>('pages/search')

const SearchQuery = z.object({ q: text })

/**
 * `GET /search?q=`: packages, packages from upstreams and repositories that the visitor may see, and the versions with
 * an archive for its SHA-256. Site administrators find people too.
 */
export async function searchPageRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  const { db } = context
  app.get(
    '/search',
    anybody(context, async (session, request, reply) => {
      const accountId = session?.account.id ?? null
      const search = readQuery(SearchQuery, request).q.trim().slice(0, 200)
      const isAdmin = session?.account.isAdmin === true
      const sha256 = readSha256(search)
      const [packages, mirrors, repositories, archives, people] =
        search === ''
          ? [[], [], [], [], null]
          : await Promise.all([
              searchAllPackages(db, accountId, search, maxFound),
              searchAllMirrors(db, accountId, search, maxFound),
              searchRepositories(db, accountId, search, maxFound),
              sha256 === null ? [] : listFoundArchives(db, accountReader(accountId), sha256, firstPart),
              isAdmin ? listAccounts(db, firstPart, { search }) : null,
            ])
      const found = [packages, mirrors, repositories, archives, people ?? []]
      const isFound = found.some(({ length }) => length > 0)
      const own =
        isFound || search === '' || accountId === null
          ? []
          : await listAccessibleRepositories(db, accountReader(accountId), firstPart)
      return searchPage(reply, session ?? nobody, {
        search,
        packages,
        mirrors,
        repositories,
        archives,
        people,
        maxFound,
        searchable: own.slice(0, maxOffered),
        publishable: own.find(({ role }) => isAtLeast(role, 'developer')) ?? null,
      })
    }),
  )
}

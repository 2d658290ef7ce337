import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import { readSession } from '../accounts/visitor.ts'
import type { AppContext } from '../context.ts'
import { readQuery, text } from '../http/forms.ts'
import { page } from '../http/pages.ts'
import { listReachedRepositories, type ReachedRepository, reachOf } from '../repositories/reached.ts'

const repositoriesPerPage = 50

const frontPage = page<object>('pages/front')
const homePage = page<{
  repositories: ReachedRepository[]
  search: string
  /** True when the list starts after another page. */
  isContinued: boolean
  /** The path after which the next page starts. Null on the last page. */
  next: string | null
}>('pages/home')

const HomeQuery = z.object({ q: text, after: text })

/** `GET /`: the repositories of the signed-in account, or the front page for other visitors. */
export async function homeRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get('/', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return frontPage(reply, null, {})
    const { q, after } = readQuery(HomeQuery, request)
    const search = q.trim().slice(0, 200)
    const part = { search, after, limit: repositoriesPerPage + 1 }
    const found = await listReachedRepositories(context.db, reachOf(session.account.id), part)
    const repositories = found.slice(0, repositoriesPerPage)
    return homePage(reply, session, {
      repositories,
      search,
      isContinued: after !== '',
      next: found.length > repositoriesPerPage ? (repositories.at(-1)?.path ?? null) : null,
    })
  })
}

import type { FastifyInstance } from 'fastify'
import { readSession } from '../accounts/visitor.ts'
import type { AppContext } from '../context.ts'
import { page } from '../http/pages.ts'
import { listRepositoriesOf, type RepositoryOfAccount } from '../repositories/repositories.ts'

const frontPage = page<object>('pages/front')
const homePage = page<{ repositories: RepositoryOfAccount[] }>('pages/home')

/** `GET /`: an account's repositories, or the front page for somebody who is not signed in. */
export async function homeRoutes(app: FastifyInstance, context: AppContext): Promise<void> {
  app.get('/', async (request, reply) => {
    const session = await readSession(context, request)
    if (!session) return frontPage(reply, null, {})
    return homePage(reply, session, {
      repositories: await listRepositoriesOf(context.db, session.account.id),
    })
  })
}

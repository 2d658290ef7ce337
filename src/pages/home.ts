import type { FastifyInstance } from 'fastify'
import { readSession } from '../accounts/visitor.ts'
import { page } from '../http/pages.ts'
import type { Parts } from '../parts.ts'
import { listRepositoriesOf, type RepositoryOfAccount } from '../registry/repositories.ts'

const frontPage = page<object>('pages/front')
const homePage = page<{ repositories: RepositoryOfAccount[] }>('pages/home')

/** `GET /`: an account's repositories, or the front page for somebody who is not signed in. */
export async function homeRoutes(app: FastifyInstance, parts: Parts): Promise<void> {
  app.get('/', async (request, reply) => {
    const session = await readSession(parts, request)
    if (!session) return frontPage(reply, null, {})
    return homePage(reply, session, { repositories: await listRepositoriesOf(parts.db, session.account.id) })
  })
}

import type { FastifyInstance } from 'fastify'
import { refuseOtherMethods } from '../http/other-methods.ts'
import { notFound, wrongMethod } from '../http/page-error.ts'
import { pagePolicy } from '../http/security-headers.ts'
import { speakHtml } from '../http/speak-html.ts'
import type { Parts } from '../parts.ts'
import { homeRoutes } from './home.ts'
import { packageRoutes } from './package.ts'
import { repositoryRoutes } from './repository.ts'

/** The pages for people who use the registries (DESIGN §4). */
export async function peoplesPages(app: FastifyInstance, parts: Parts): Promise<void> {
  await speakHtml(app, parts.config, pagePolicy)
  app.addHook('onRequest', async (request) => {
    // PostgreSQL's texts know no NUL, so nothing is named with one.
    if (request.url.includes('%00')) throw notFound()
  })
  await homeRoutes(app, parts)
  await repositoryRoutes(app, parts)
  await packageRoutes(app, parts)
  for (const url of ['/', '/:group/:name', '/:group/:name/packages/:vendor/:package']) {
    refuseOtherMethods(app, url, ['GET', 'HEAD'], wrongMethod)
  }
}

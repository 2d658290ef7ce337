import type { FastifyInstance } from 'fastify'
import type { AppContext } from '../context.ts'
import { refuseOtherMethods } from '../http/other-methods.ts'
import { notFound, wrongMethod } from '../http/page-error.ts'
import { pagePolicy } from '../http/security-headers.ts'
import { speakHtml } from '../http/speak-html.ts'
import type { ReadmeRenderer } from '../registry/readmes/render-readme.ts'
import { homeRoutes } from './home.ts'
import { packageRoutes } from './package.ts'
import { repositoryRoutes } from './repository.ts'

/** The pages for people who use the registries (DESIGN §4). */
export async function peoplesPages(
  app: FastifyInstance,
  context: AppContext & { readmes: ReadmeRenderer },
): Promise<void> {
  await speakHtml(app, context.config, pagePolicy)
  app.addHook('onRequest', async (request) => {
    // PostgreSQL's texts know no NUL, so nothing is named with one.
    if (request.url.includes('%00')) throw notFound()
  })
  await homeRoutes(app, context)
  await repositoryRoutes(app, context)
  await packageRoutes(app, context)
  for (const url of ['/', '/:group/:name', '/:group/:name/packages/:vendor/:package']) {
    refuseOtherMethods(app, url, ['GET', 'HEAD'], wrongMethod)
  }
}

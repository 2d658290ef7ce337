import type { FastifyInstance } from 'fastify'
import type { Parts } from '../app.ts'
import { refuseOtherMethods } from '../http/other-methods.ts'
import { wrongMethod } from '../http/page-error.ts'
import { pagePolicy } from '../http/security-headers.ts'
import { speakHtml } from '../http/speak-html.ts'
import { homeRoutes } from './home.ts'

/** The pages for people who use the registries (DESIGN §4). */
export async function peoplesPages(app: FastifyInstance, parts: Parts): Promise<void> {
  await speakHtml(app, parts.config, pagePolicy)
  await homeRoutes(app, parts)
  refuseOtherMethods(app, '/', ['GET', 'HEAD'], wrongMethod)
}

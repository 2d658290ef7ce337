import type { FastifyInstance } from 'fastify'
import type { Parts } from '../app.ts'
import { pagePolicy } from '../http/security-headers.ts'
import { speakHtml } from '../http/speak-html.ts'
import { homeRoutes } from './home.ts'

/** The pages for people who use the registries (DESIGN §4). */
export async function peoplesPages(app: FastifyInstance, parts: Parts): Promise<void> {
  await speakHtml(app, parts.config, pagePolicy)
  await homeRoutes(app, parts)
}

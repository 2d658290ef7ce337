import cookie from '@fastify/cookie'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.ts'
import { checkForgery } from './csrf.ts'
import { showError } from './error-pages.ts'
import { acceptForms } from './forms.ts'
import { setPageHeaders } from './security-headers.ts'

/**
 * Makes a scope speak to browsers: cookies, forms, the headers of a page under the given content security policy,
 * errors as pages, and no POST that another site has forged (DESIGN §8).
 */
export async function speakHtml(scope: FastifyInstance, config: Config, policy: string): Promise<void> {
  await scope.register(cookie)
  scope.removeAllContentTypeParsers()
  await acceptForms(scope)
  scope.addHook('onRequest', async (_request, reply) => setPageHeaders(reply, policy))
  scope.addHook('preHandler', async (request) => {
    if (request.method === 'POST') checkForgery(request, config)
  })
  scope.setErrorHandler(showError)
}

import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import { isOutage } from '../database/database.ts'
import { FormError } from './forms.ts'
import { PageError } from './page-error.ts'
import { page } from './pages.ts'
import { pagePolicy, setPageHeaders } from './security-headers.ts'

const errorPage = page<{ status: number; title: string; message: string }>('error')

const titles: Record<number, string> = {
  400: 'This request cannot be understood',
  403: 'This was refused',
  404: 'Not found',
  405: 'This cannot be done here',
  413: 'This is too large',
  415: 'This cannot be read',
  429: 'Too many attempts',
  500: 'Something went wrong',
  503: 'Not available at the moment',
}

/** Shows the error page for whatever a handler threw. A bug is logged once and shown without detail. */
export function showError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (error instanceof PageError) return showPageError(error, reply)
  if (error instanceof FormError) return showPageError(new PageError(400, error.message), reply)
  const status = error.statusCode ?? 500
  if (status >= 400 && status < 500) {
    return showPageError(
      new PageError(status, 'The browser sent something that this page does not take.'),
      reply,
    )
  }
  request.log.error({ err: error, req: request }, 'a page failed')
  if (isOutage(error)) {
    const message = 'The server cannot reach its database at the moment. Please try again in a few seconds.'
    return showPageError(new PageError(503, message, { 'retry-after': '5' }), reply)
  }
  return showPageError(new PageError(500, 'The mistake is ours and has been noted. Please try again.'), reply)
}

/** The page of a refusal. */
export function showPageError(error: PageError, reply: FastifyReply): FastifyReply {
  reply.code(error.status).headers(error.headers)
  return errorPage(reply, null, contentOf(error))
}

/** Answers an address that cannot be read, before Fastify knows which scope it goes to: its reply knows no `view`. */
export function showAddressError(_error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  const content = contentOf(new PageError(400, 'This address cannot be read.'))
  setPageHeaders(reply, pagePolicy)
  void reply.code(400).type('text/html; charset=utf-8')
  void request.server.view('error', { ...content, visitor: null, path: '' }).then((html) => reply.send(html))
}

function contentOf({ status, message }: PageError) {
  return { status, title: titles[status] ?? 'This did not work', message }
}

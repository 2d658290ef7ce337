import type { FastifyRequest } from 'fastify'
import { PageError } from './page-error.ts'

/** Parses a form or a query. Broken percent-encoding, bytes that are no UTF-8, and NUL get the 400 page. */
export function parsePageForm(text: string): URLSearchParams {
  const isReadable = !/%(?![0-9a-f]{2})|%00|\0/i.test(text) && isUtf8(text)
  if (!isReadable) throw new PageError(400, 'The browser sent something that cannot be read.')
  return new URLSearchParams(text)
}

/** A request's query, as strict as a form. */
export function readQuery(request: FastifyRequest): URLSearchParams {
  const start = request.url.indexOf('?')
  return parsePageForm(start < 0 ? '' : request.url.slice(start + 1))
}

/** The one value of a field, `''` when it was left out. A field sent twice gets the 400 page. */
export function field(form: unknown, name: string): string {
  const [value = '', ...more] = fields(form, name)
  if (more.length > 0) throw new PageError(400, `The form sent “${name}” more than once.`)
  return value
}

/** All values of a field that may be sent many times, such as check boxes. */
export function fields(form: unknown, name: string): string[] {
  return form instanceof URLSearchParams ? form.getAll(name) : []
}

function isUtf8(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}

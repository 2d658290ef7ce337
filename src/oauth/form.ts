import type { FastifyInstance, FastifyRequest } from 'fastify'
import { OAuthError } from './errors.ts'

/** A form's parameters by name. Those sent more than once are listed in `repeated`. */
export interface Form {
  readonly values: ReadonlyMap<string, string>
  readonly repeated: ReadonlySet<string>
}

/** What these endpoints know. Of these each is there once, though none reads them all (RFC 6749 §3.2). */
const knownParameters = [
  'client_id',
  'client_secret',
  'code',
  'code_verifier',
  'grant_type',
  'redirect_uri',
  'refresh_token',
  'scope',
  'token',
  'token_type_hint',
]

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Lets the scope read forms and nothing else: any other body, or none, is `invalid_request` (RFC 6749 §3.2). */
export function acceptOnlyForms(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser<Buffer>(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer' },
    async (_request: FastifyRequest, body: Buffer) => parseForm(body),
  )
  scope.addContentTypeParser('*', async () => {
    throw notAForm()
  })
}

/**
 * Reads `application/x-www-form-urlencoded` strictly: broken percent-encoding, bytes that are no UTF-8, and NUL are
 * refused. A parameter without a value counts as omitted (RFC 6749 §3.2).
 */
export function parseForm(body: Buffer): Form {
  const values = new Map<string, string>()
  const repeated = new Set<string>()
  for (const pair of body.toString('latin1').split('&')) {
    const [name = '', value = ''] = splitOnce(pair, '=').map(decodePart)
    if (value === '') continue
    if (values.has(name)) repeated.add(name)
    values.set(name, value)
  }
  return { values, repeated }
}

/**
 * The form of a request. Throws `invalid_request` when it has none, one without parameters, or one that repeats a
 * known parameter.
 */
export function formOf(request: FastifyRequest): Form {
  const form = request.body as Form | undefined
  if (!form || form.values.size === 0) throw notAForm()
  const repeated = knownParameters.find((name) => form.repeated.has(name))
  if (repeated) throw new OAuthError('invalid_request', `The parameter ${repeated} is repeated.`)
  return form
}

/** A parameter's value; undefined when omitted or empty. */
export function readOptional({ values }: Form, name: string): string | undefined {
  return values.get(name)
}

/** A parameter's value. Throws `invalid_request` when it is omitted or empty. */
export function readRequired(form: Form, name: string): string {
  const value = readOptional(form, name)
  if (value === undefined) throw new OAuthError('invalid_request', `The parameter ${name} is missing.`)
  return value
}

/** Decodes one name or value. Throws `invalid_request` for what stands for no text. */
export function decodePart(part: string): string {
  const bytes = part.replaceAll('+', ' ').replace(/%([0-9a-f]{2})|%/gi, (_match, hex?: string) => {
    if (hex === undefined) throw unreadable()
    return String.fromCharCode(Number.parseInt(hex, 16))
  })
  if (bytes.includes('\0')) throw unreadable()
  try {
    return utf8.decode(Buffer.from(bytes, 'latin1'))
  } catch {
    throw unreadable()
  }
}

/** The text before the first separator and, when there is one, the text after it. */
export function splitOnce(text: string, separator: string): string[] {
  const at = text.indexOf(separator)
  return at === -1 ? [text] : [text.slice(0, at), text.slice(at + 1)]
}

function notAForm(): OAuthError {
  return new OAuthError(
    'invalid_request',
    'The request body must be an application/x-www-form-urlencoded form with at least one parameter.',
  )
}

function unreadable(): OAuthError {
  return new OAuthError('invalid_request', 'The request body is not well-formed UTF-8 text, percent-encoded.')
}

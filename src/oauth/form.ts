import type { FastifyInstance, FastifyRequest } from 'fastify'
import { z } from 'zod'
import { acceptForms, FormError, readForm } from '../http/forms.ts'
import { OAuthError } from './errors.ts'

const parameter = z.string().optional()

/** The parameters of these endpoints. Each may be sent once, also to an endpoint that does not read it (RFC 6749 §3.2). */
const OAuthForm = z.object({
  client_id: parameter,
  client_secret: parameter,
  code: parameter,
  code_verifier: parameter,
  grant_type: parameter,
  redirect_uri: parameter,
  refresh_token: parameter,
  scope: parameter,
  token: parameter,
  token_type_hint: parameter,
})

/** The parameters of a request; an empty one counts as omitted. */
export type Form = z.output<typeof OAuthForm>

/** Lets the scope read forms only. Any other body, or none, is `invalid_request` (RFC 6749 §3.2). */
export async function acceptOnlyForms(scope: FastifyInstance): Promise<void> {
  scope.removeAllContentTypeParsers()
  await acceptForms(scope)
  scope.addContentTypeParser('*', async () => {
    throw notAForm()
  })
}

/**
 * Reads the form of a request. Throws `invalid_request` when the form is missing, empty or not well-formed, or repeats a
 * parameter.
 */
export function formOf(request: FastifyRequest): Form {
  try {
    const form = readForm(OAuthForm, request)
    if (Object.values(form).some((value) => value !== undefined)) return form
  } catch (error) {
    if (error instanceof FormError) throw new OAuthError('invalid_request', error.message)
    throw error
  }
  throw notAForm()
}

/** Returns a parameter's value. Undefined when it is omitted or empty. */
export function readOptional(form: Form, name: keyof Form): string | undefined {
  return form[name]
}

/** Returns a parameter's value. Throws `invalid_request` when it is omitted or empty. */
export function readRequired(form: Form, name: keyof Form): string {
  const value = form[name]
  if (value === undefined) throw new OAuthError('invalid_request', `The parameter ${name} is missing.`)
  return value
}

function notAForm(): OAuthError {
  return new OAuthError(
    'invalid_request',
    'The request body must be an application/x-www-form-urlencoded form with at least one parameter.',
  )
}

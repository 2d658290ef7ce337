import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Queryable } from '../../database/database.ts'
import { countAttempt, limitsFrom } from '../../database/failure-limit.ts'
import { networkOf } from '../../domain/client-ip.ts'
import { hashSecret, noSecretHash } from '../../domain/secrets.ts'
import type { PresentedClient } from '../../oauth/token-pairs.ts'
import { basicCredentialsOf } from '../basic-credentials.ts'
import { acceptForms, decodeFormText, FormError, readTexts } from '../forms.ts'
import { invalidClient, OAuthError } from './errors.ts'

/** The parameters of these endpoints. Each may be sent once, even if the endpoint does not use it (RFC 6749 §3.2). */
const parameters = [
  'client_id',
  'client_secret',
  'code',
  'code_verifier',
  'device_code',
  'grant_type',
  'redirect_uri',
  'refresh_token',
  'scope',
  'token',
  'token_type_hint',
] as const
const parameterNames = new Set(parameters)

/** The parameters of a request. A missing or empty one is undefined. */
export type Form = Partial<Record<(typeof parameters)[number], string>>

/** Makes the scope accept only forms. Any other body, or none, is `invalid_request` (RFC 6749 §3.2). */
export async function acceptOnlyForms(scope: FastifyInstance): Promise<void> {
  scope.removeAllContentTypeParsers()
  await acceptForms(scope)
  scope.addContentTypeParser('*', async () => {
    throw notAForm()
  })
}

/**
 * Reads the form of a request. Throws `invalid_request` when the form is missing, empty, not well-formed, or has a
 * repeated parameter.
 */
export function formOf(request: FastifyRequest): Form {
  const form = readParameters(parameterNames, request)
  if (Object.keys(form).length > 0) return form
  throw notAForm()
}

/** Does the same, but an empty form is accepted: a client that authenticates by HTTP Basic needs no parameter (RFC 8628 §3.1). */
export function optionalFormOf(request: FastifyRequest): Form {
  if (request.body === undefined) throw notAForm()
  return readParameters(parameterNames, request)
}

/** Reads the parameters with these names. Throws `invalid_request` when one is repeated, or the form is not well-formed. */
export function readParameters<Name extends string>(
  names: ReadonlySet<Name>,
  request: FastifyRequest,
): Partial<Record<Name, string>> {
  try {
    return readTexts(names, request)
  } catch (error) {
    if (error instanceof FormError) throw new OAuthError('invalid_request', error.message)
    throw error
  }
}

/** Returns a parameter's value. Throws `invalid_request` when it is missing or empty. */
export function readRequired(form: Form, name: keyof Form): string {
  const value = form[name]
  if (value === undefined) throw new OAuthError('invalid_request', `The parameter ${name} is missing.`)
  return value
}

function notAForm(): OAuthError {
  return new OAuthError(
    'invalid_request',
    'The request body must be an application/x-www-form-urlencoded form with the parameters of the endpoint.',
  )
}

/** This many failures in a minute get `invalid_client`. Further ones get 429. */
const failuresPerClientAndNetwork = 30
const failuresPerNetwork = 120
const windowSeconds = 60

/**
 * Reads the client's credentials from HTTP Basic or from the form (SPEC 5.1, RFC 6749 §2.3.1). Without a secret they are those
 * of a public client (OPENID 203). Throws `invalid_client` when they are missing or unreadable, and `invalid_request` when
 * both methods are used.
 */
export function readClient(request: FastifyRequest, form: Form): PresentedClient {
  const isInHeader = request.headers.authorization !== undefined
  const [clientId, secret] = isInHeader ? fromBasic(request, form) : fromForm(form)
  return { clientId, secretHash: secret === null ? noSecretHash : hashSecret(secret), ip: request.ip }
}

/** Returns whether a request has any credentials of a client, or names one. */
export function hasClientCredentials({ headers }: FastifyRequest, form: Form): boolean {
  return (
    headers.authorization !== undefined || form.client_id !== undefined || form.client_secret !== undefined
  )
}

/**
 * Counts a failed authentication and throws its error: `invalid_client`, or 429 after too many failures. Only failures
 * are limited. A correct secret always passes, so nobody can lock out an application by sending wrong secrets for it.
 * Guessing is no risk, because a secret has 256 random bits.
 */
export async function refuseClient(db: Queryable, client: PresentedClient): Promise<never> {
  const network = networkOf(client.ip)
  // Count the network first: a blocked network adds no more rows, even with many invented client ids.
  const blockedSeconds = await countAttempt(db, [
    ...limitsFrom(network, { subject: 'clients', attempts: failuresPerNetwork, windowSeconds }),
    ...limitsFrom(network, {
      subject: `client ${client.clientId}`,
      attempts: failuresPerClientAndNetwork,
      windowSeconds,
    }),
  ])
  if (blockedSeconds === 0) throw invalidClient()
  throw new OAuthError(
    'temporarily_unavailable',
    'Too many failed client authentications. Try again later.',
    {
      headers: { 'retry-after': String(blockedSeconds) },
    },
  )
}

/** The secret is null when none was sent. */
type IdAndSecret = readonly [clientId: string, secret: string | null]

function fromForm(form: Form): IdAndSecret {
  const { client_id: clientId, client_secret: secret } = form
  if (clientId === undefined) throw invalidClient()
  return [clientId, secret ?? null]
}

function fromBasic(request: FastifyRequest, form: Form): IdAndSecret {
  const [clientId, secret] = decodeBasic(request)
  if (form.client_secret !== undefined) {
    throw new OAuthError('invalid_request', 'The client authenticates in two ways at once.')
  }
  if ((form.client_id ?? clientId) !== clientId) {
    throw new OAuthError('invalid_request', 'The client_id differs from the one in the Authorization header.')
  }
  return [clientId, secret]
}

/** Form-decodes both parts, so that percent-encoded and raw `_` and `-` mean the same. */
function decodeBasic(request: FastifyRequest): IdAndSecret {
  const sent = basicCredentialsOf(request)
  const clientId = sent && decodeFormText(sent.username)
  const secret = sent && decodeFormText(sent.password)
  if (!clientId || secret == null) throw invalidClient()
  return [clientId, secret || null]
}

import type { FastifyRequest } from 'fastify'
import type { Queryable } from '../database/database.ts'
import { hashSecret, type SecretHash } from '../domain/secrets.ts'
import { countAttempt, networkOf } from '../http/failure-limit.ts'
import { invalidClient, OAuthError } from './errors.ts'
import { decodePart, type Form, readOptional, splitOnce } from './form.ts'

/** How many failures a minute get `invalid_client`; further ones get 429. SPEC does not show rate limits. */
const failuresPerClientAndNetwork = 30
const failuresPerNetwork = 120
const windowSeconds = 60

/** What a client says to be. The statement that does its work also verifies it, in the same round trip. */
export interface PresentedClient {
  clientId: string
  secretHash: SecretHash
  /** Where the request comes from. */
  address: string
}

/**
 * Reads the client's credentials from HTTP Basic or from the form (SPEC 5.1, RFC 6749 §2.3.1). Throws
 * `invalid_client` when there are none that can be read, `invalid_request` when both ways are used.
 */
export function readClient(request: FastifyRequest, form: Form): PresentedClient {
  const { authorization } = request.headers
  const [clientId, secret] = authorization === undefined ? fromForm(form) : fromBasic(authorization, form)
  return { clientId, secretHash: hashSecret(secret), address: request.ip }
}

/**
 * Counts a failed authentication and throws what answers it: `invalid_client`, or 429 once there were too many.
 * Only failures are limited. A right secret always passes, as 256 random bits need no guard against guessing,
 * and nobody can lock out an application by failing in its name.
 */
export async function refuseClient(db: Queryable, client: PresentedClient): Promise<never> {
  const network = networkOf(client.address)
  // The network first: one that is blocked writes no more rows, whatever client identifiers it makes up.
  const blockedSeconds = await countAttempt(db, [
    { subject: `clients from ${network}`, attempts: failuresPerNetwork, windowSeconds },
    {
      subject: `client ${client.clientId} from ${network}`,
      attempts: failuresPerClientAndNetwork,
      windowSeconds,
    },
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

type IdAndSecret = readonly [clientId: string, secret: string]

function fromForm(form: Form): IdAndSecret {
  const clientId = readOptional(form, 'client_id')
  const secret = readOptional(form, 'client_secret')
  if (clientId === undefined || secret === undefined) throw invalidClient()
  return [clientId, secret]
}

function fromBasic(authorization: string, form: Form): IdAndSecret {
  const [clientId, secret] = parseBasic(authorization)
  if (readOptional(form, 'client_secret') !== undefined) {
    throw new OAuthError('invalid_request', 'The client authenticates in two ways at once.')
  }
  if ((readOptional(form, 'client_id') ?? clientId) !== clientId) {
    throw new OAuthError('invalid_request', 'The client_id differs from the one in the Authorization header.')
  }
  return [clientId, secret]
}

/** Both parts are form-decoded: clients that percent-encode `_` or `-` and those that send them raw mean the same. */
function parseBasic(authorization: string): IdAndSecret {
  const encoded = /^basic +([a-z0-9+/]+={0,2}) *$/i.exec(authorization)?.[1] ?? ''
  const [clientId = '', secret = ''] = splitOnce(Buffer.from(encoded, 'base64').toString('latin1'), ':')
  try {
    if (clientId !== '' && secret !== '') return [decodePart(clientId), decodePart(secret)]
  } catch {
    // Text that stands for nothing is no client's name or secret.
  }
  throw invalidClient()
}

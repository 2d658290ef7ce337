import { hashSecret, kindOfSecret, type SecretHash } from '../../domain/secrets.ts'
import { notAuthorized } from '../errors.ts'

/** The fixed username of SPEC 4.4. */
const username = 'svc'

/**
 * The token of a request: HTTP Basic with the username `svc` and the token as its password (SPEC 5.5), or the token
 * as a bearer (Composer's `bearer` credentials). Null when there is none. Throws errcode 16 when it cannot be a token,
 * without asking the database.
 */
export function readCredentials(header: string | undefined): SecretHash | null {
  if (header === undefined) return null
  const [, scheme, value] = /^(Basic|Bearer) +([A-Za-z0-9+/._~=-]+) *$/i.exec(header) ?? []
  if (scheme === undefined || value === undefined) {
    throw badCredentials('Send the token as HTTP Basic with the username svc.')
  }
  const token = scheme.toLowerCase() === 'basic' ? passwordOf(value) : value
  const kind = kindOfSecret(token)
  if (kind === 'access' || kind === 'personal') return hashSecret(token)
  throw badCredentials('The password must be an access token or a personal access token of svc.')
}

/** Errcode 16 with status 401: Composer prints the warning. */
export function badCredentials(warning: string) {
  return notAuthorized({ warning })
}

function passwordOf(encoded: string): string {
  const [, name, password] = /^([^:]*):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString('utf8')) ?? []
  if (name?.toLowerCase() !== username || password === undefined) {
    throw badCredentials(`The username must be ${username}, and the password a token.`)
  }
  return password
}

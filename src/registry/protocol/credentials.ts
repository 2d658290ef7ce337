import type { FastifyRequest } from 'fastify'
import { hashSecret, kindOfSecret, type SecretHash } from '../../domain/secrets.ts'
import { basicCredentialsOf } from '../../http/basic-credentials.ts'
import { notAuthorized } from '../errors.ts'

/** The fixed username of SPEC 4.4. */
const username = 'svc'

/**
 * Returns the hash of the request's token: HTTP Basic with the username `svc` and the token as its password (SPEC 5.5), or
 * the token as a bearer (Composer's `bearer` credentials). Null when there are no credentials. Throws errcode 16 when they
 * cannot hold a token, without a query.
 */
export function readCredentials(request: FastifyRequest): SecretHash | null {
  const { authorization } = request.headers
  if (authorization === undefined) return null
  const token = /^bearer +([\w.~+/-]+=*)$/i.exec(authorization)?.[1] ?? passwordOf(request)
  const kind = kindOfSecret(token)
  if (kind === 'access' || kind === 'personal') return hashSecret(token)
  throw badCredentials('The password must be an access token or a personal access token of svc.')
}

/** Errcode 16 with status 401: Composer prints the warning. */
export function badCredentials(warning: string) {
  return notAuthorized({ warning })
}

function passwordOf(request: FastifyRequest): string {
  const sent = basicCredentialsOf(request)
  if (!sent) throw badCredentials('Send the token as HTTP Basic with the username svc.')
  if (sent.username.toLowerCase() === username) return sent.password
  throw badCredentials(`The username must be ${username}, and the password a token.`)
}

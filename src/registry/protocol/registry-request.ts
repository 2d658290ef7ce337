import type { FastifyRequest } from 'fastify'
import type pg from 'pg'
import type { AppContext } from '../../context.ts'
import { hashSecret, isToken, kindOfSecret, type SecretHash } from '../../domain/secrets.ts'
import { senderOf } from '../../http/actor.ts'
import { basicCredentialsOf } from '../../http/basic-credentials.ts'
import type { RegistryRequest, requireAccess } from '../access.ts'
import type { ArchiveStore } from '../archives/archive-store.ts'
import type { DownloadCounter } from '../download-counter.ts'
import { notAuthorized, type RegistryError } from '../errors.ts'
import type { ReadmeRenderer } from '../readmes/render-readme.ts'
import type { ArchiveMirror } from '../upstreams/archive-mirror.ts'
import type { Mirror } from '../upstreams/mirror.ts'
import type { UpstreamQueries } from '../upstreams/queries.ts'

/** The parts that the registry's endpoints need. */
export interface RegistryContext extends AppContext {
  readmes: ReadmeRenderer
  /** A separate small pool for publishing, which waits for the lock of a package. */
  changes: pg.Pool
  archives: ArchiveStore
  downloads: DownloadCounter
  mirror: Mirror
  archiveMirror: ArchiveMirror
  upstreamQueries: UpstreamQueries
  /** `requireAccess` of access.ts. It also stores that the token was used. */
  requireAccess: typeof requireAccess
}

/** Reads the repository and the token of a request. Throws errcode 16 for credentials that cannot be valid. */
export function readRegistryRequest(request: FastifyRequest): RegistryRequest {
  const { group = '', name = '' } = request.params as Record<string, string | undefined>
  return { group, name, tokenHash: readCredentials(request), describeSender: senderOf(request) }
}

/** Returns a decoded parameter of the route's path. Returns '' when the route has no parameter of that name. */
export function param(request: FastifyRequest, name: string): string {
  return (request.params as Record<string, string | undefined>)[name] ?? ''
}

/** The fixed username of SPEC 4.4. */
const username = 'svc'

/**
 * Returns the hash of the request's token. The token is the password of HTTP Basic with the username `svc` (SPEC 5.5),
 * or a bearer token (Composer's `bearer` credentials). With a deploy token any username is valid. Null when there are
 * no credentials. Throws errcode 16, without a query, when the credentials cannot contain a token.
 */
function readCredentials(request: FastifyRequest): SecretHash | null {
  const { authorization } = request.headers
  if (authorization === undefined) return null
  const token = /^bearer +([\w.~+/-]+=*)$/i.exec(authorization)?.[1] ?? passwordOf(request)
  if (isToken(token)) return hashSecret(token)
  throw badCredentials(
    'The password must be an access token, a personal access token or a deploy token of svc.',
  )
}

/** Returns errcode 16 with status 401. Composer prints the warning. */
function badCredentials(warning: string): RegistryError {
  return notAuthorized({ warning })
}

function passwordOf(request: FastifyRequest): string {
  const sent = basicCredentialsOf(request)
  if (!sent) throw badCredentials('Send the token as HTTP Basic with the username svc.')
  if (sent.username.toLowerCase() === username) return sent.password
  // Build servers often store a token with their own username. A deploy token has no account, so any username fits.
  if (kindOfSecret(sent.password) === 'deploy') return sent.password
  throw badCredentials(`The username must be ${username}, and the password must be a token.`)
}

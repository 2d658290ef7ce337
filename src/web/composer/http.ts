import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type pg from 'pg'
import type { ArchiveStore } from '../../archives/archive-store.ts'
import type { AppContext } from '../../context.ts'
import type { ActDetails, RepositoryAct, Visibility } from '../../domain/permissions.ts'
import { errcode, notAuthorized, Refusal } from '../../domain/refusal.ts'
import { hashSecret, kindOfSecret, kindOfToken } from '../../domain/secrets.ts'
import {
  type Access,
  type GrantedAccess,
  LacksScopeError,
  type RegistryRequest,
  type RequestToken,
} from '../../groups/access.ts'
import type { StorageRoom } from '../../groups/storage-room.ts'
import type { DownloadCounter } from '../../packages/download-counter.ts'
import type { ReadmeRenderer } from '../../packages/readmes/render-readme.ts'
import type { TrustedRoots } from '../../publishers/trusted-roots.ts'
import type { ArchiveMirror } from '../../upstreams/archive-mirror.ts'
import type { Mirror } from '../../upstreams/mirror.ts'
import type { UpstreamQueries } from '../../upstreams/queries.ts'
import { basicCredentialsOf } from '../basic-credentials.ts'
import { bearerChallenge } from '../bearer-challenge.ts'
import { sendEarly } from '../early-response.ts'
import { logFailure } from '../log-failure.ts'
import { tokenPrincipalOf } from '../principal.ts'
import { refusalOf } from '../refusal-of.ts'
import type { ServerPools } from '../server/pools.ts'

/** The parts that the registry's endpoints need. */
export interface RegistryContext extends AppContext {
  pools: ServerPools
  readmes: ReadmeRenderer
  /** A separate small pool for publishing, which waits for the lock of a package. */
  changes: pg.Pool
  archives: ArchiveStore
  room: StorageRoom
  downloads: DownloadCounter
  mirror: Mirror
  archiveMirror: ArchiveMirror
  upstreamQueries: UpstreamQueries
  /** The trusted roots of Sigstore. Null without TRUSTED_ROOT_FILE. */
  trustedRoots: TrustedRoots | null
  /** `requireAccess` of access.ts. It also stores that the token was used. */
  requireAccess: (
    target: RegistryRequest,
    access: Access,
    act: RepositoryAct,
    about?: ActDetails,
  ) => GrantedAccess
}

/** Reads the repository and the token of a request. Throws errcode 16 for credentials that cannot be valid. */
export function readRegistryRequest(request: FastifyRequest): RegistryRequest {
  const { group = '', name = '' } = request.params as Record<string, string | undefined>
  return {
    group,
    name,
    token: readCredentials(request),
    principalOf: tokenPrincipalOf(request),
    // A header contains no line break.
    key: `${request.headers.authorization ?? ''}\n${request.url}`,
  }
}

/** Returns a decoded parameter of the route's path. Returns '' when the route has no parameter of that name. */
export function param(request: FastifyRequest, name: string): string {
  return (request.params as Record<string, string | undefined>)[name] ?? ''
}

/** The maximum size of a list of package names. */
const maxTextBytes = 512 * 1024

/** Makes the scope read every body as text. Composer sends forms and JSON, and some clients send no content type. */
export function acceptText(scope: FastifyInstance): void {
  scope.removeAllContentTypeParsers()
  scope.addContentTypeParser(
    '*',
    { parseAs: 'string', bodyLimit: maxTextBytes },
    async (_request: unknown, body: string) => body,
  )
}

/** The credentials of the last request and their token. A client sends the same header with every request. */
let lastRead: { authorization: string; token: RequestToken } | undefined

/** The fixed username of SPEC 4.4. */
const username = 'svc'

/**
 * Returns the token of a request. It is the password of HTTP Basic with the username `svc` (SPEC 5.5), or a bearer token
 * (Composer's `bearer` credentials). With a token that has no account any username is valid. Throws errcode 16, without a
 * query, when the credentials cannot contain a token.
 */
function readCredentials(request: FastifyRequest): RequestToken | null {
  const { authorization } = request.headers
  if (authorization === undefined) return null
  if (authorization === lastRead?.authorization) return lastRead.token
  const text = /^bearer +([\w.~+/-]+=*)$/i.exec(authorization)?.[1] ?? passwordOf(request)
  const kind = kindOfToken(text)
  if (!kind)
    throw badCredentials(
      'The password must be an access token, a personal access token, a deploy token or a token of a trusted publisher of svc.',
    )
  const token = { kind, hash: hashSecret(text) }
  lastRead = { authorization, token }
  return token
}

/** Returns errcode 16 with status 401. Composer prints the warning. */
function badCredentials(warning: string): Refusal {
  return notAuthorized({ warning })
}

function passwordOf(request: FastifyRequest): string {
  const sent = basicCredentialsOf(request)
  if (!sent) throw badCredentials('Send the token as HTTP Basic with the username svc.')
  if (sent.username.toLowerCase() === username) return sent.password
  // Build servers often store a token with their own username. These tokens have no account, so any username fits.
  const kind = kindOfSecret(sent.password)
  if (kind === 'deploy' || kind === 'publisher') return sent.password
  throw badCredentials(`The username must be ${username}, and the password must be a token.`)
}

/** Composer prints the text of a response only with exactly this type, without a charset (COMPOSER A5). */
export const jsonType = 'application/json'

/** Sends JSON in the registry's content type. No shared cache may store it. */
export function sendRegistryJson(reply: FastifyReply, status: number, body: object): FastifyReply {
  return reply
    .code(status)
    .headers({ 'content-type': jsonType, 'cache-control': 'private, no-cache' })
    .send(encodeJson(body))
}

/** Sends JSON that is a text already. */
export function sendRegistryText(reply: FastifyReply, json: string | Buffer): FastifyReply {
  return reply
    .code(200)
    .headers({ 'content-type': jsonType, 'cache-control': 'private, no-cache' })
    .send(typeof json === 'string' ? Buffer.from(json) : json)
}

/** Returns a Buffer, because Fastify appends a charset to the content type of a string. */
function encodeJson(body: object): Buffer {
  return Buffer.from(JSON.stringify(body))
}

/**
 * Sends the error that a handler of the registry threw, in the format of SPEC 7. A bug is logged once and sent without
 * details.
 */
export function sendRegistryError(
  thrown: Error & Partial<FastifyError>,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply | undefined {
  if (request.raw.destroyed && !request.raw.complete) {
    request.log.info({ req: request }, 'the client disconnected before its request was complete')
    return reply.hijack()
  }
  const error = refusalOf(thrown)
  logFailure(request, error, thrown, 'a registry request failed')
  if (error.status === 401 || error.status === 403)
    reply.header('www-authenticate', challengesOf(request, error))
  if (error.allow !== undefined) reply.header('allow', error.allow)
  if (error.retryAfterSeconds !== undefined) reply.header('retry-after', `${error.retryAfterSeconds}`)
  reply.code(error.status).header('content-type', jsonType).header('cache-control', 'no-store')
  return sendEarly(request, reply, encodeJson(error.body))
}

/** Returns the challenges of a 401 or 403. Basic comes first: many programs read only the first header of this name. */
function challengesOf(request: FastifyRequest, error: Refusal): string[] {
  if (error.status === 403)
    return [bearerChallenge(request, error instanceof LacksScopeError ? { error: 'insufficient_scope' } : {})]
  const isSent = request.headers.authorization !== undefined
  return [
    'Basic realm="svc", charset="UTF-8"',
    bearerChallenge(request, isSent ? { error: 'invalid_token' } : {}),
  ]
}

/** Returns the error for anything that does not exist: errcode 5. */
export function registryNotFound(errmsg = 'not found'): Refusal {
  return new Refusal(errcode.notFound, errmsg)
}

/** Returns the error for a method that the endpoint does not have. `allow` lists the methods that it has. */
export function methodNotAllowed(allow: string): Refusal {
  return new Refusal(errcode.unimplemented, 'method not allowed', { status: 405, allow })
}

/**
 * How long a CDN or proxy may serve a document of a public repository without a request to svc. Its clients see a
 * quarantine, or a change to private, up to this time later.
 */
const sharedSeconds = 60

/**
 * Sets which caches may store a document. Everyone who may read a registry gets the same documents. So any cache may
 * store a public registry's documents for all clients, whatever credentials they send.
 */
export function setDocumentCaching(reply: FastifyReply, visibility: Visibility): void {
  const isPublic = visibility === 'public'
  reply.header(
    'cache-control',
    isPublic ? `public, max-age=0, s-maxage=${sharedSeconds}` : 'private, no-cache',
  )
  reply.header('vary', isPublic ? 'Accept-Encoding' : 'Authorization, Accept-Encoding')
}

/**
 * Sets which caches may store an archive. Its bytes never change, but shared caches must check again in case of a
 * quarantine.
 */
export function setArchiveCaching(reply: FastifyReply, visibility: Visibility): void {
  if (visibility === 'public') {
    reply.header('cache-control', `public, max-age=31536000, s-maxage=${sharedSeconds}, immutable`)
    return
  }
  reply.header('cache-control', 'private, max-age=31536000, immutable').header('vary', 'Authorization')
}

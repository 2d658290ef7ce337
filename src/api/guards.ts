import type { FastifyRequest } from 'fastify'
import type pg from 'pg'
import type { AppContext } from '../context.ts'
import type { Actor } from '../database/database.ts'
import { shareStatements } from '../database/shared-statements.ts'
import { type Act, isAtLeast, judge, scopeOf } from '../domain/permissions.ts'
import { covers } from '../domain/scopes.ts'
import { hashSecret, kindOfToken, type SecretHash } from '../domain/secrets.ts'
import { actorOf, senderOf } from '../http/actor.ts'
import type { LastUse } from '../jobs/last-use.ts'
import { type Access, findAccess } from '../registry/access.ts'
import { errcode } from '../registry/errors.ts'
import type { Author } from '../registry/tables/events.ts'
import type { UpstreamClient } from '../registry/upstreams/client/fetch.ts'
import { findVisibleGroup } from '../repositories/groups.ts'
import {
  ApiError,
  insufficientScope,
  invalidToken,
  noCredentials,
  notFound,
  unreadableCredentials,
} from './errors.ts'
import { listTokenHolders, type TokenHolder } from './token-holders.ts'

/** The context of the API's endpoints. */
export interface ApiContext extends AppContext {
  /** A small separate pool for changes of packages, because they wait for locks. */
  changes: pg.Pool
  /** The pool for pulls and tokens. */
  hotDb: pg.Pool
  lastUse: LastUse
  upstreamClient: UpstreamClient
}

/** Decides whether a request may use an endpoint, and keeps its result for the handler. */
export interface Guard<Granted> {
  /** The scope that a token needs. */
  scope: string
  /** Scopes that a token needs too. */
  moreScopes?: readonly string[]
  /** Whether the endpoint accepts personal access tokens only, and no tokens of applications or deploy tokens. */
  isForPeople?: true
  /** Whether such a token may be for the repository of the URL only. */
  isOfRepository?: true
  /** Throws the errors of RFC 6750, and 404 for everything that the token may not see. */
  preValidation: (request: FastifyRequest) => Promise<void>
  /** Returns the result of the guard for a request that passed. */
  granted: (request: object) => Granted
}

/** A repository that a request may use, and who uses it. */
export interface RepositoryGrant {
  repositoryId: string
  /** `acme/php`. */
  path: string
  access: Access
  author: Author
  baseUrl: string
}

/** Requires a token with the scope. */
export function guardToken({ hotDb, lastUse }: ApiContext, scope: string): Guard<TokenHolder> {
  const findTokenHolder = shareStatements(listTokenHolders.bind(null, hotDb), {
    keyOf: (tokenHash) => tokenHash.toString('latin1'),
  })
  return makeGuard(scope, async (request) => {
    const describeSender = senderOf(request)
    const holder = await findTokenHolder(readBearer(request))
    if (!holder) throw invalidToken()
    lastUse.note(holder, () => describeSender(holder.accountId))
    requireScope(holder.scopes, scope)
    return holder
  })
}

/** A group that a request may manage, and who does it. */
export interface GroupGrant {
  groupId: string
  name: string
  accountId: string
  /** Never true for an application's token. */
  isSiteAdmin: boolean
  /** The scopes of the token. */
  scopes: readonly string[]
  author: Author
}

/**
 * Requires a token of an admin of the group in the URL, with the scope, for all repositories. Settings of a group
 * affect all its repositories, so a token for some of them is not enough. A site administrator is admin of every group,
 * with a personal access token only.
 */
export function guardGroup(scope: string, context: ApiContext): Guard<GroupGrant> {
  const holders = guardToken(context, scope)
  return makeGuard(scope, async (request) => {
    const { group = '' } = request.params as Record<string, string | undefined>
    const { ip } = request
    await holders.preValidation(request)
    const { accountId, account, resourceScope, scopes, kind, tokenId, authorizationId } =
      holders.granted(request)
    // A deploy token does not belong to a person.
    if (accountId === null) throw notFound('group not found')
    const isSiteAdmin = account?.isSiteAdmin === true && kind === 'personal'
    const found = await findVisibleGroup(context.db, group, accountId, { asSiteAdmin: isSiteAdmin })
    if (!found) throw notFound('group not found')
    if (!isAtLeast(found.role, 'admin') || resourceScope !== 'all') throw roleForbids()
    return {
      groupId: found.id,
      name: found.name,
      accountId,
      isSiteAdmin,
      scopes,
      author: { accountId, token: { kind, tokenId, authorizationId }, ip },
    }
  })
}

/** A person who calls with a personal access token. */
export interface PersonGrant {
  accountId: string
  username: string
  isSiteAdmin: boolean
  author: Author
  actor: Actor
}

/**
 * Requires a personal access token with the scope, for all repositories. Sessions, second factors and the
 * administration are not for applications: no consent page asks for them. The token needs `moreScopes` too.
 */
export function guardPerson(
  context: ApiContext,
  scope: string,
  moreScopes: readonly string[] = [],
): Guard<PersonGrant> {
  const holders = guardToken(context, scope)
  const guard = makeGuard(scope, async (request) => {
    const { ip } = request
    await holders.preValidation(request)
    const { accountId, account, resourceScope, kind, tokenId, authorizationId, scopes } =
      holders.granted(request)
    for (const more of moreScopes) requireScope(scopes, more)
    if (kind !== 'personal' || accountId === null || account === null || resourceScope !== 'all') {
      throw roleForbids()
    }
    return {
      accountId,
      username: account.username,
      isSiteAdmin: account.isSiteAdmin,
      author: { accountId, token: { kind, tokenId, authorizationId }, ip },
      actor: { ...actorOf(request, accountId), via: 'api' as const },
    }
  })
  return { ...guard, moreScopes, isForPeople: true }
}

/** Like `guardPerson`, for site administrators. */
export function guardAdministrator(context: ApiContext, scope: string): Guard<PersonGrant> {
  const people = guardPerson(context, scope)
  const guard = makeGuard(scope, async (request) => {
    await people.preValidation(request)
    const person = people.granted(request)
    if (!person.isSiteAdmin) throw roleForbids()
    return person
  })
  return { ...guard, isForPeople: true }
}

/**
 * Requires that the permission rule allows an act on the repository of the URL (DESIGN §1). Unlike the registry, which
 * serves a public repository to everyone, the API requires the scope there too.
 */
export function guardRepository(act: Act, { config, db, lastUse }: ApiContext): Guard<RepositoryGrant> {
  return makeGuard(scopeOf(act), async (request) => {
    const { group = '', name = '' } = request.params as Record<string, string | undefined>
    // Read the IP now: after a disconnect the socket no longer has it.
    const { ip } = request
    const describeSender = senderOf(request)
    const access = await findAccess(db, { group, name, token: { hash: readBearer(request) } })
    const { repositoryId, tokenKind, tokenId, authorizationId, accountId } = access
    if (tokenKind === null) throw invalidToken()
    const token = { kind: tokenKind, tokenId, authorizationId }
    lastUse.note(token, () => describeSender(accountId))
    const verdict = repositoryId === null ? 'hidden' : judge(access, { ...access, id: repositoryId }, act)
    if (repositoryId === null || verdict === 'hidden') throw notFound('repository not found')
    requireScope(access.scopes, scopeOf(act))
    if (verdict !== 'allowed') throw roleForbids()
    const author = { accountId, token, ip }
    return { repositoryId, path: `${group}/${name}`, access, author, baseUrl: config.baseUrl }
  })
}

/** Like `guardRepository`, for personal access tokens only: no application does it, whatever a person consents to. */
export function guardPersonOfRepository(act: Act, context: ApiContext): Guard<RepositoryGrant> {
  const anyone = guardRepository(act, context)
  const guard = makeGuard(scopeOf(act), async (request) => {
    await anyone.preValidation(request)
    const grant = anyone.granted(request)
    if (grant.author.token?.kind !== 'personal') throw roleForbids()
    return grant
  })
  return { ...guard, isForPeople: true, isOfRepository: true }
}

/**
 * Returns the hash of a request's bearer token (RFC 6750 §2.1): an OAuth access token, a personal access token or a
 * deploy token. It reads only the Authorization header. Throws when the token is missing, malformed, or of another
 * kind.
 */
export function readBearer(request: FastifyRequest): SecretHash {
  const { authorization } = request.headers
  if (authorization === undefined || !/^bearer(?: |$)/i.test(authorization)) throw noCredentials()
  const token = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(authorization)?.[1]
  if (token === undefined) throw unreadableCredentials('The Authorization header is malformed')
  if (hasSecondToken(request)) throw unreadableCredentials('The request carries more than one access token')
  if (!kindOfToken(token)) throw invalidToken()
  return hashSecret(token)
}

/** A hook that requires a token in the Authorization header, without asking the database whether it is valid. */
export async function requireBearer(request: FastifyRequest): Promise<void> {
  readBearer(request)
}

function makeGuard<Granted>(
  scope: string,
  check: (request: FastifyRequest) => Promise<Granted>,
): Guard<Granted> {
  // A property of the request, because a WeakMap of all requests makes each garbage collection slower.
  const granted = Symbol('granted')
  return {
    scope,
    async preValidation(request) {
      Reflect.set(request, granted, await check(request))
    },
    granted: (request) => Reflect.get(request, granted) as Granted,
  }
}

function requireScope(granted: readonly string[], scope: string): void {
  if (!covers(granted, scope)) throw insufficientScope(scope)
}

/**
 * RFC 6750 §2 allows one token in a request. A token only in the query is ignored. Together with the header it is an
 * error.
 */
function hasSecondToken({ query, body }: FastifyRequest): boolean {
  return [query, body].some((part) => typeof part === 'object' && part !== null && 'access_token' in part)
}

/** Returns the error for a token whose role does not allow the request, or that does not include the repository. */
export function roleForbids(): ApiError {
  const errmsg =
    'the role of the account or deploy token, or the repositories that the token was made for, do not allow this'
  return new ApiError(403, errcode.permissionDenied, errmsg)
}

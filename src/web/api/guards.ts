import type { FastifyRequest } from 'fastify'
import type pg from 'pg'
import type { AppContext } from '../../context.ts'
import { shareStatements } from '../../database/shared-statements.ts'
import {
  type AccountAct,
  type Act,
  type ActDetails,
  type Credential,
  decideAccess,
  decideOnAccount,
  decideOnGroup,
  decideOnSite,
  type GroupAct,
  type RepositoryAct,
  type SiteAct,
  scopesOf,
  type TokenGrant,
  type Verdict,
} from '../../domain/permissions.ts'
import type { Principal } from '../../domain/principal.ts'
import { errcode, Refusal } from '../../domain/refusal.ts'
import { apiResource } from '../../domain/resources.ts'
import { covers } from '../../domain/scopes.ts'
import { hashSecret, kindOfToken, type SecretHash } from '../../domain/secrets.ts'
import {
  type Access,
  describeMissingFactor,
  findAccess,
  grantOf,
  needsFactor,
  usedTokenOf,
} from '../../groups/access.ts'
import { lacksRequiredFactor } from '../../groups/factor-requirement.ts'
import { findGroup, findVisibleGroup } from '../../groups/groups.ts'
import type { LastUse } from '../../oauth/last-use.ts'
import type { Outbound } from '../../outbound/outbound.ts'
import type { StageWatch } from '../../packages/stages/watch.ts'
import type { IssuerKeys } from '../../publishers/issuer-keys.ts'
import type { UpstreamClient } from '../../upstreams/client/fetch.ts'
import type { UpstreamQueries } from '../../upstreams/queries.ts'
import { tokenPrincipalOf } from '../principal.ts'
import type { ServerPools } from '../server/pools.ts'
import { insufficientScope, invalidToken, noCredentials, notFound, unreadableCredentials } from './errors.ts'
import { listTokenHolders, type TokenHolder } from './token-holders.ts'

/** The context of the API's endpoints. */
export interface ApiContext extends AppContext {
  /** A small separate pool for changes of packages, because they wait for locks. */
  changes: pg.Pool
  pools: ServerPools
  lastUse: LastUse
  stageWatch: StageWatch
  upstreamClient: UpstreamClient
  issuerKeys: IssuerKeys
  outbound: Outbound
  upstreamQueries: UpstreamQueries
}

/** Decides whether a request may use an endpoint, and keeps its result for the handler. */
export interface Guard<Granted> {
  /** What the endpoint does. Its rule decides. */
  act: Act
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
  /** The permissions of the token, for acts that an endpoint includes. */
  grant: TokenGrant
  by: Principal
  baseUrl: string
}

/** Requires a token that may do an act on its own account. */
export function guardToken(act: AccountAct, context: ApiContext): Guard<TokenHolder> {
  const findHolder = holderFinder(context)
  return makeGuard(act, async (request) => {
    const { holder } = await findHolder(request)
    requireAllowed(decideOnAccount(holder, act), holder, act)
    return holder
  })
}

/**
 * Returns a function that finds the holder of a request's token, and makes the principal of the request. It throws when
 * there is no such token.
 */
function holderFinder({ pools, lastUse }: ApiContext) {
  const findTokenHolder = shareStatements(listTokenHolders.bind(null, pools.pull), {
    keyOf: (tokenHash) => tokenHash.toString('latin1'),
  })
  return async (request: FastifyRequest): Promise<{ holder: TokenHolder; by: Principal }> => {
    const principalOf = tokenPrincipalOf(request)
    const holder = await findTokenHolder(readBearer(request))
    if (!holder) throw invalidToken()
    const { kind, tokenId, authorizationId, accountId } = holder
    const by = principalOf({ kind, tokenId, authorizationId }, accountId)
    lastUse.note(by)
    return { holder, by }
  }
}

/** A group that a request may manage, and who does it. */
export interface GroupGrant {
  groupId: string
  name: string
  accountId: string
  /** The credential of the request, for acts that an endpoint includes. */
  credential: Credential
  by: Principal
}

/**
 * Requires a token that may do an act on the group of the URL. With an admin token, a site administrator is admin of
 * every group.
 */
export function guardGroup(act: GroupAct, context: ApiContext): Guard<GroupGrant> {
  const findHolder = holderFinder(context)
  return makeGuard(act, async (request) => {
    const { group = '' } = request.params as Record<string, string | undefined>
    const { holder, by } = await findHolder(request)
    const { accountId, scopes } = holder
    requireScopes(scopes, act)
    // A deploy token does not belong to a person.
    if (accountId === null) throw notFound('group not found')
    const found = await findVisibleGroup(context.db, group, accountId, { asSiteAdmin: holder.isSiteAdmin })
    const isAllowed = found !== null && decideOnGroup(holder, found.role, act) === 'allowed'
    if (!isAllowed && holder.resourceScope === 'all') await requireFactorIn(group, accountId, context)
    if (!found) throw notFound('group not found')
    requireAllowed(decideOnGroup(holder, found.role, act), holder, act)
    return {
      groupId: found.id,
      name: found.name,
      accountId,
      credential: holder,
      by,
    }
  })
}

/** A group about whose projects a request reports. */
export interface ReportGrant {
  groupId: string
  by: Principal
}

/** Requires a token of a developer of the group of the URL, or a deploy token of the group that may report. */
export function guardReport(context: ApiContext): Guard<ReportGrant> {
  const act = 'reportLock'
  const ofPeople = guardGroup(act, context)
  const findHolder = holderFinder(context)
  return makeGuard(act, async (request) => {
    const { holder, by } = await findHolder(request)
    if (holder.deploy === null) {
      await ofPeople.preValidation(request)
      return ofPeople.granted(request)
    }
    requireScopes(holder.scopes, act)
    const { group = '' } = request.params as Record<string, string | undefined>
    const found = await findGroup(context.db, group)
    if (found?.id !== holder.deploy.groupId) throw notFound('group not found')
    // A report is about a project, and not about the repositories of the token.
    requireAllowed(decideOnGroup({ ...holder, resourceScope: 'all' }, holder.deploy.role, act), holder, act)
    return { groupId: found.id, by }
  })
}

/** A person who calls with a personal access token. */
export interface PersonGrant {
  accountId: string
  username: string
  /** The credential of the request, for acts that an endpoint includes. */
  credential: Credential
  by: Principal
}

/** Requires a personal access token that may do an act on its own account. */
export function guardPerson(act: AccountAct, context: ApiContext): Guard<PersonGrant> {
  return guardPeople(act, context, (holder) => decideOnAccount(holder, act))
}

/** Requires an admin token that may do an act of site administration. */
export function guardAdministrator(act: SiteAct, context: ApiContext): Guard<PersonGrant> {
  return guardPeople(act, context, (holder) => decideOnSite(holder, act))
}

function guardPeople(
  act: Act,
  context: ApiContext,
  verdictOn: (holder: TokenHolder) => Verdict,
): Guard<PersonGrant> {
  const findHolder = holderFinder(context)
  return makeGuard(act, async (request) => {
    const { holder, by } = await findHolder(request)
    requireAllowed(verdictOn(holder), holder, act)
    const { accountId, account } = holder
    if (accountId === null || account === null) throw roleForbids()
    return {
      accountId,
      username: account.username,
      credential: holder,
      by,
    }
  })
}

/**
 * Requires that the permission rule allows an act on the repository of the URL (CONTRACT 1.10). Unlike the registry,
 * which serves a public repository to everyone, the API requires the scope there too. `moreActs` are what a body asks for
 * besides, so that a refusal names the scopes of all of it.
 */
export function guardRepository(
  act: RepositoryAct,
  { config, db, lastUse }: ApiContext,
  moreActs: (body: unknown) => readonly RepositoryAct[] = () => [],
): Guard<RepositoryGrant> {
  return makeGuard(act, async (request) => {
    const { group = '', name = '' } = request.params as Record<string, string | undefined>
    const principalOf = tokenPrincipalOf(request)
    const token = { hash: readBearer(request) }
    const access = await findAccess(db, { group, name, token, resource: apiResource })
    const grant = grantOf(access)
    if (grant === null) throw invalidToken()
    const { repositoryId, accountId } = access
    const by = principalOf(usedTokenOf(access), accountId)
    lastUse.note(by)
    const verdict =
      repositoryId === null
        ? 'hidden'
        : decideAccess(grant, { ...access, id: repositoryId }, act, aboutOf(request))
    if (verdict !== 'allowed' && needsFactor(access, act)) throw lacksFactor(group, config)
    if (repositoryId === null || verdict === 'hidden') throw notFound('repository not found')
    requireScopes(grant.scopes, act, ...moreActs(request.body))
    requireAllowed(verdict, grant, act)
    // Its right to publish is a right to upload, not one to change packages.
    if (grant.kind === 'publisher' && act === 'push') throw forbidden(refusals.personal)
    return { repositoryId, path: `${group}/${name}`, access, grant, by, baseUrl: config.baseUrl }
  })
}

/** Returns which package the URL of a request names. */
function aboutOf({ params }: FastifyRequest): ActDetails {
  const { vendor, package: name } = params as Record<string, string | undefined>
  return vendor === undefined || name === undefined ? {} : { packageName: `${vendor}/${name}` }
}

/** Requires that a request that passed the guard of a repository may do another act there too. */
export function requireOnRepository(
  { access, grant, repositoryId }: RepositoryGrant,
  act: RepositoryAct,
): void {
  requireAllowed(decideAccess(grant, { ...access, id: repositoryId }, act), grant, act)
}

/** Requires that a request that passed the guard of a group may do another act there too. */
export function requireOnGroup({ credential }: GroupGrant, act: GroupAct): void {
  requireAllowed(decideOnGroup(credential, 'admin', act), credential, act)
}

/** Requires that a request that passed another guard may also do an act of site administration. */
export function requireOnSite({ credential }: { credential: Credential }, act: SiteAct): void {
  requireAllowed(decideOnSite(credential, act), credential, act)
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

function makeGuard<Granted>(act: Act, check: (request: FastifyRequest) => Promise<Granted>): Guard<Granted> {
  // A property of the request, because a WeakMap of all requests makes each garbage collection slower.
  const granted = Symbol('granted')
  return {
    act,
    async preValidation(request) {
      Reflect.set(request, granted, await check(request))
    },
    granted: (request) => Reflect.get(request, granted) as Granted,
  }
}

/** Throws the error of a verdict that is not `allowed`. */
function requireAllowed(verdict: Verdict, { scopes }: Pick<TokenGrant, 'scopes'>, act: Act): void {
  if (verdict === 'allowed') return
  if (verdict === 'unscoped') requireScopes(scopes, act)
  throw verdict in refusals ? forbidden(refusals[verdict as keyof typeof refusals]) : roleForbids()
}

const refusals = {
  uncovered: 'the trusted publisher of the token does not have this right for this package',
  personal:
    'applications, deploy tokens and trusted publishers cannot do this: it needs a personal access token',
  administrator:
    'only site administrators can do this, with a personal access token that was made with --admin',
  interactive:
    'passwords, second factors, emails and roles of site administrators change only in the browser and by command',
}

/** Throws an error that names all scopes of the acts, if one of them is missing. */
function requireScopes(granted: readonly string[], ...acts: readonly Act[]): void {
  const needed = acts.flatMap(scopesOf)
  const missing = needed.find((scope) => !covers(granted, scope))
  if (missing !== undefined) throw insufficientScope(missing, needed)
}

/**
 * RFC 6750 §2 allows one token in a request. A token only in the query is ignored. Together with the header it is an
 * error.
 */
function hasSecondToken({ query, body }: FastifyRequest): boolean {
  return [query, body].some((part) => typeof part === 'object' && part !== null && 'access_token' in part)
}

/** Throws the error of a member who lacks the second factor that a group requires. */
export async function requireFactorIn(
  group: string,
  accountId: string | null,
  { config, db }: ApiContext,
): Promise<void> {
  if (accountId !== null && (await lacksRequiredFactor(db, group, accountId)))
    throw lacksFactor(group, config)
}

function lacksFactor(group: string, { baseUrl }: { baseUrl: string }): Refusal {
  return forbidden(describeMissingFactor(group, baseUrl))
}

/** Returns the error for a token whose role does not allow the request, or that does not include the repository. */
function roleForbids(): Refusal {
  return forbidden(
    'the role of the account or deploy token, or the repositories that the token was made for, do not allow this',
  )
}

function forbidden(errmsg: string): Refusal {
  return new Refusal(errcode.permissionDenied, errmsg)
}

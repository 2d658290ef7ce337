import type { Queryable } from '../database/database.ts'
import {
  type ActDetails,
  decideAccess,
  type RepositoryAct,
  type Role,
  scopesOf,
  type TokenGrant,
  type Visibility,
} from '../domain/permissions.ts'
import type { Principal, UsedToken } from '../domain/principal.ts'
import type { PublisherRight, PublisherRun } from '../domain/publisher.ts'
import { errcode, notAuthorized, Refusal } from '../domain/refusal.ts'
import type { SecretHash, TokenKind } from '../domain/secrets.ts'

/** The token that a request presents. */
export interface RequestToken {
  /** The kind that the prefix of the token names. */
  kind: TokenKind
  hash: SecretHash
}

/** The repository and the token of a request. */
export interface RegistryRequest {
  group: string
  name: string
  /** Null without a token. */
  token: RequestToken | null
  /** Tells who sends the request, with a live token and the account of it. */
  principalOf: (token: UsedToken | null, accountId: string | null) => Principal
  /** The same for requests of the same URL with the same credentials. They may share a read of the database. */
  key: string
}

/**
 * The repository and the token of a request in the database, with the role of the request's account or deploy token.
 */
export interface Access {
  repositoryId: string | null
  visibility: Visibility
  role: Role | null
  tokenKind: TokenKind | null
  tokenId: string
  accountId: string | null
  authorizationId: string | null
  scopes: string[]
  resourceScope: TokenGrant['resourceScope']
  repositoryIds: string[]
  /** What only a token of a trusted publisher has. */
  publisher: { id: string; ids: string[]; rights: PublisherRight[]; run: PublisherRun } | null
  /** Whether the account is a member without a role, because the group requires a second factor that it does not have. */
  isRoleWithheld: boolean
}

/** The result of a permission check that passed. */
export interface GrantedAccess {
  repositoryId: string
  /** Has no token when a request to a public repository comes without credentials. */
  by: Principal
}

/** What a statement found, with the access of the request. */
export interface WithAccess {
  access: Access
}

/**
 * SQL that reads an `Access`: `select ${publisherAccessJson} as access from ${accessTable}`. Its three values come first: `values:
 * [...accessValues(target)]`. One JSON column takes PostgreSQL and pg less time than ten columns.
 */
export const accessTable =
  'registry_access(group_name => $1, repository_name => $2, presented_hash => $3, place => null) a'
export const accessJson = accessJsonWith('null')

/** The same with what only a token of a trusted publisher has. Statements for other kinds of tokens need not read it. */
export const publisherAccessJson = accessJsonWith(`case when a.token_kind = 'publisher' then
  (select json_build_object('id', publisher_id::text, 'ids', publisher_ids::text[], 'rights', rights, 'run', run)
     from publisher_token where id = a.token_id) end`)

function accessJsonWith(publisher: string): string {
  return `json_build_object(
  'repositoryId', a.repository_id::text, 'visibility', a.visibility, 'role', a.role, 'tokenKind', a.token_kind,
  'tokenId', a.token_id::text, 'accountId', a.account_id::text, 'authorizationId', a.authorization_id::text,
  'scopes', a.scopes, 'resourceScope', a.resource_scope, 'repositoryIds', a.repository_ids::text[],
  'publisher', ${publisher},
  'isRoleWithheld', case when a.role is null and a.account_id is not null
                         then is_role_withheld(a.account_id, coalesce(a.repository_id, 0)) else false end)`
}

/** The part of a request that decides its access. */
type AccessTarget = Pick<RegistryRequest, 'group' | 'name'> & {
  token: Pick<RequestToken, 'hash'> | null
  /** The resource that the request is for. Without one, it is the registry of the repository. */
  resource?: string
}

export function accessValues({ group, name, token }: AccessTarget): [string, string, SecretHash | null] {
  return [group, name, token?.hash ?? null]
}

/** Reads only the access, for endpoints that read nothing else in the same statement. */
export async function findAccess(db: Queryable, target: AccessTarget): Promise<Access> {
  const { rows } = await db.query<WithAccess>({
    name: 'find-access',
    text: `select ${publisherAccessJson} as access
             from registry_access(group_name => $1, repository_name => $2, presented_hash => $3, place => $4) a`,
    values: [...accessValues(target), target.resource ?? null],
  })
  return (rows[0] as WithAccess).access
}

/**
 * Applies the permission rule (CONTRACT 1.10, 7.2) and returns the request's repository and who sends it. Throws errcode 16
 * with 401 for missing or bad credentials. Throws errcode 5 for a repository that the token may not see, and errcode 16
 * with 403 for an act that the token may not do.
 * Without credentials, a private repository gets the same response as an unknown one. So Composer asks for credentials,
 * and nobody learns which repositories exist. An upload to a hidden repository gets the body of SPEC 7 for a missing
 * permission, with status 404. A member who lacks a second factor that the group requires learns so, with status 403.
 */
export function requireAccess(
  target: RegistryRequest,
  access: Access,
  act: RepositoryAct,
  baseUrl: string,
  about: ActDetails = {},
): GrantedAccess {
  const by = target.principalOf(usedTokenOf(access), access.accountId)
  if (target.token && !by.token) throw notAuthorized({ warning: 'The token is unknown, expired or revoked.' })
  const { repositoryId, visibility, role } = access
  const verdict =
    repositoryId === null
      ? 'hidden'
      : decideAccess(grantOf(access), { id: repositoryId, visibility, role }, act, about)
  if (repositoryId !== null && verdict === 'allowed') return { repositoryId, by }
  if (!by.token)
    throw notAuthorized({ warning: 'Credentials are missing: the username svc and a token as the password.' })
  if (needsFactor(access, act))
    throw notAuthorized({ status: 403, warning: describeMissingFactor(target.group, baseUrl) })
  if (verdict === 'hidden') throw act === 'push' || act === 'stage' ? nowhereToPush() : noRepository()
  if (verdict === 'unscoped') throw new LacksScopeError(act)
  throw notAuthorized({ status: 403, warning: verdict === 'uncovered' ? uncovered : roleForbids })
}

/** The error for a token whose scopes do not allow an act: errcode 16 with 403. */
export class LacksScopeError extends Refusal {
  constructor(act: RepositoryAct) {
    const warning = `The token lacks the scope ${scopesOf(act)[0]}.`
    super(errcode.unauthenticated, 'not authorized', { status: 403, warning })
  }
}

/** Returns whether the request may do an act, for what others must not even learn of. */
export function maySee(access: Access, act: RepositoryAct, about: ActDetails = {}): boolean {
  const { repositoryId: id, visibility, role } = access
  return id !== null && decideAccess(grantOf(access), { id, visibility, role }, act, about) === 'allowed'
}

/** Returns whether a refused act would be allowed with the role that the account lacks without a second factor. */
export function needsFactor(access: Access, act: RepositoryAct): boolean {
  const { isRoleWithheld, repositoryId: id, visibility } = access
  if (!isRoleWithheld || id === null) return false
  return decideAccess(grantOf(access), { id, visibility, role: 'admin' }, act) === 'allowed'
}

/** Tells a member why there is no access, and where to set up a second factor. */
export function describeMissingFactor(group: string, baseUrl: string): string {
  return `The group ${group} requires a second factor, and the account of this token has none. Set one up at ${baseUrl}/settings/second-factor and try again.`
}

/** Returns the permissions of the token of a request. Null without a live token. */
export function grantOf({
  tokenKind,
  scopes,
  resourceScope,
  repositoryIds,
  publisher,
}: Access): (TokenGrant & { kind: TokenKind }) | null {
  const grant = tokenKind && { kind: tokenKind, scopes, resourceScope, repositoryIds }
  return grant && publisher ? { ...grant, rights: publisher.rights } : grant
}

/** Returns the token of a request. Null without a live one. */
export function usedTokenOf({ tokenKind, tokenId, authorizationId, publisher }: Access): UsedToken | null {
  if (!tokenKind) return null
  const token = { kind: tokenKind, tokenId: publisher?.id ?? tokenId, authorizationId }
  return publisher ? { ...token, run: publisher.run, publishers: publisher.ids } : token
}

const roleForbids =
  'The role of the account or deploy token, or the repositories the token was made for, do not allow this.'

const uncovered =
  'The trusted publisher of the token does not have this right for this package. An admin of the repository adds rights and packages.'

const hiddenOrMissing = 'There is no repository at this URL, or the token may not see it.'

/** Returns the same error for a missing repository and for one that the token may not see. */
function noRepository(): Refusal {
  return new Refusal(errcode.notFound, 'repository not found', { warning: hiddenOrMissing })
}

function nowhereToPush(): Refusal {
  return notAuthorized({ status: 404, warning: hiddenOrMissing })
}

import { covers } from './scopes.ts'

/** A member's role on a group or a repository, weakest first (DESIGN §1). */
export const roles = ['guest', 'developer', 'admin'] as const
export type Role = (typeof roles)[number]

export const visibilities = ['private', 'public'] as const
export type Visibility = (typeof visibilities)[number]

/** Which repositories an application or a token may access (SPEC 2.1, Authorization Resource Scope). */
export const resourceScopes = ['all', 'public', 'specified'] as const
export type ResourceScope = (typeof resourceScopes)[number]

/** What a request can do to a repository. Each act requires a scope and a role. */
const acts = {
  describe: { scope: 'repo-basic-info:r', role: 'guest' },
  pull: { scope: 'registry-package:r', role: 'guest' },
  push: { scope: 'registry-package:rw', role: 'developer' },
  deletePackage: { scope: 'registry-package-delete:rw', role: 'admin' },
  readSettings: { scope: 'registry-manage:r', role: 'admin' },
  manage: { scope: 'registry-manage:rw', role: 'admin' },
  deleteRepository: { scope: 'registry-delete:rw', role: 'admin' },
} as const satisfies Record<string, { scope: string; role: Role }>

export type Act = keyof typeof acts

/** The scopes of what only admins of a repository do. Site administrators do it in every repository. */
export const repositoryAdminScopes: readonly string[] = Object.values(acts)
  .filter(({ role }) => role === 'admin')
  .map(({ scope }) => scope)

/** The scopes of what only admins of a group do in `/api`, and of the endpoints for site administrators. */
export const groupAdminScopes: readonly string[] = [
  'group-resource:rw',
  'group-manage:r',
  'group-manage:rw',
  'group-delete:rw',
]

/**
 * The scopes of SPEC 2.4 that svc itself checks. They are the scopes of the registries, of `/api/user`, and of
 * `/api/groups` with all about a group. Other services check the other scopes: they introspect the token.
 */
export const enforcedScopes: readonly string[] = [
  ...new Set(Object.values(acts).map(({ scope }) => scope)),
  'account-profile:r',
  'account-profile:rw',
  'account-email:r',
  'group-resource:r',
  ...groupAdminScopes,
]

/**
 * The rights that a deploy token can have. A deploy token belongs to a group and has a role on the repositories of that
 * group only.
 */
export const deployRights = {
  read: { role: 'guest', scopes: ['registry-package:r', 'repo-basic-info:r'] },
  publish: { role: 'developer', scopes: ['registry-package:rw', 'repo-basic-info:r'] },
} as const satisfies Record<string, { role: Role; scopes: readonly string[] }>

export type DeployRight = keyof typeof deployRights

/** The permissions of an OAuth access token, a personal access token or a deploy token. */
export interface TokenGrant {
  scopes: readonly string[]
  resourceScope: ResourceScope
  /** The ids of the chosen repositories. Used when the resource scope is `specified`. */
  repositoryIds: readonly string[]
}

/** A repository, with the role of the account or the deploy token behind the request. */
export interface RepositoryForAccount {
  id: string
  visibility: Visibility
  /** The stronger of the account's roles on the group and on the repository, or the role of a deploy token. Null: no role. */
  role: Role | null
}

/**
 * - `allowed`;
 * - `hidden`: the response must be the same as for a missing repository (404);
 * - `unscoped`: the token's scope does not cover the act;
 * - `forbidden`: the account's role, or the token's resource scope, does not allow it.
 */
export type Verdict = 'allowed' | 'hidden' | 'unscoped' | 'forbidden'

/** Returns the scope that an act requires, such as `registry-package:rw`. */
export function scopeOf(act: Act): string {
  return acts[act].scope
}

/**
 * Applies the permission rule (DESIGN §1): the token's scope covers the act, its resource scope includes the
 * repository, and the account's role allows the act. `token` is null for a request without credentials. Anyone may pull
 * from a public repository, with any token or none.
 */
export function judge(token: TokenGrant | null, repository: RepositoryForAccount, act: Act): Verdict {
  const isPublic = repository.visibility === 'public'
  const role = repository.role ?? (isPublic ? 'guest' : null)
  if (isPublic && act === 'pull') return 'allowed'
  if (!token) return isPublic ? 'forbidden' : 'hidden'
  if (!isPublic && !(role && isInResourceScope(token, repository))) return 'hidden'
  if (!covers(token.scopes, acts[act].scope)) return 'unscoped'
  return isInResourceScope(token, repository) && isAtLeast(role, acts[act].role) ? 'allowed' : 'forbidden'
}

/** Returns whether the role is at least the needed one. */
export function isAtLeast(role: Role | null, needed: Role): boolean {
  return role !== null && roles.indexOf(role) >= roles.indexOf(needed)
}

function isInResourceScope(token: TokenGrant, repository: RepositoryForAccount): boolean {
  if (token.resourceScope === 'all') return true
  if (token.resourceScope === 'public') return repository.visibility === 'public'
  return token.repositoryIds.includes(repository.id)
}

/** Returns whether a person may create groups. */
export function mayCreateGroups(
  { groupCreation }: { groupCreation: 'everyone' | 'admins' },
  account: { isAdmin: boolean },
): boolean {
  return groupCreation === 'everyone' || account.isAdmin
}

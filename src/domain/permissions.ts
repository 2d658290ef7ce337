import { covers } from './scopes.ts'

/** A member's role on a group or a repository, weakest first (DESIGN §1). */
export const roles = ['guest', 'developer', 'admin'] as const
export type Role = (typeof roles)[number]

export const visibilities = ['private', 'public'] as const
export type Visibility = (typeof visibilities)[number]

/** How far an application or a token reaches (SPEC 2.1, Authorization Resource Scope). */
export const resourceScopes = ['all', 'public', 'specified'] as const
export type ResourceScope = (typeof resourceScopes)[number]

/** What a request wants to do with a repository: the scope that covers it and the role that allows it. */
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

/** What a token grants, wherever it comes from: an OAuth access token or a personal access token. */
export interface TokenGrant {
  scopes: readonly string[]
  resourceScope: ResourceScope
  /** The chosen repositories' ids; they count when the resource scope is `specified`. */
  repositoryIds: readonly string[]
}

/** A repository as the account behind the request stands to it. */
export interface RepositoryForAccount {
  id: string
  visibility: Visibility
  /** The stronger of the account's roles on the group and on the repository; null without either. */
  role: Role | null
}

/**
 * - `allowed`;
 * - `hidden`: to this request the repository does not exist (404);
 * - `unscoped`: the token's scope does not cover the act;
 * - `forbidden`: the account's role, or the token's resource scope, does not allow it.
 */
export type Verdict = 'allowed' | 'hidden' | 'unscoped' | 'forbidden'

/** The scope an act needs, as it is named in answers: `registry-package:rw`. */
export function scopeOf(act: Act): string {
  return acts[act].scope
}

/**
 * The one permission rule (DESIGN §1): the token's scope covers the act, its resource scope reaches the
 * repository, and the account's role allows it. Null stands for a request without credentials. A public
 * repository is pulled by anyone, so a pull of it asks nothing of the token.
 */
export function judge(token: TokenGrant | null, repository: RepositoryForAccount, act: Act): Verdict {
  const isPublic = repository.visibility === 'public'
  const role = repository.role ?? (isPublic ? 'guest' : null)
  if (isPublic && act === 'pull') return 'allowed'
  if (!token) return isPublic ? 'forbidden' : 'hidden'
  if (!isPublic && !(role && reaches(token, repository))) return 'hidden'
  if (!covers(token.scopes, acts[act].scope)) return 'unscoped'
  return reaches(token, repository) && isAtLeast(role, acts[act].role) ? 'allowed' : 'forbidden'
}

/** True when the role is there and not weaker than the needed one. */
export function isAtLeast(role: Role | null, needed: Role): boolean {
  return role !== null && roles.indexOf(role) >= roles.indexOf(needed)
}

function reaches(token: TokenGrant, repository: RepositoryForAccount): boolean {
  if (token.resourceScope === 'all') return true
  if (token.resourceScope === 'public') return repository.visibility === 'public'
  return token.repositoryIds.includes(repository.id)
}

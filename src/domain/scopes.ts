/** A permission type: read-only or read-write (SPEC 2.4). */
export type Permission = 'r' | 'rw'

/** A scope of SPEC 2.4 and its permission types. */
export interface ScopeDefinition {
  name: string
  permissions: readonly Permission[]
}

const both = ['r', 'rw'] as const
const readOnly = ['r'] as const
const readWriteOnly = ['rw'] as const

/**
 * The permission scopes of SPEC 2.4, in its order. The suffix of a read-write permission is `:rw`. A scope that is
 * listed with one permission type has only that one.
 */
export const scopeDefinitions: readonly ScopeDefinition[] = [
  { name: 'repo-code', permissions: both },
  { name: 'repo-pr', permissions: both },
  { name: 'repo-issue', permissions: both },
  { name: 'repo-notes', permissions: both },
  { name: 'repo-contents', permissions: both },
  { name: 'repo-commit-status', permissions: both },
  { name: 'repo-svc-trigger', permissions: both },
  { name: 'repo-svc-history', permissions: readOnly },
  { name: 'repo-svc-detail', permissions: both },
  { name: 'repo-basic-info', permissions: readOnly },
  { name: 'repo-manage', permissions: both },
  { name: 'repo-delete', permissions: readWriteOnly },
  { name: 'repo-security', permissions: readOnly },
  { name: 'registry-package', permissions: both },
  { name: 'registry-package-delete', permissions: readWriteOnly },
  { name: 'registry-manage', permissions: both },
  { name: 'registry-delete', permissions: readWriteOnly },
  { name: 'account-profile', permissions: both },
  { name: 'account-email', permissions: both },
  { name: 'account-engage', permissions: both },
  { name: 'group-resource', permissions: both },
  { name: 'group-manage', permissions: both },
  { name: 'group-delete', permissions: both },
  { name: 'mission-delete', permissions: both },
  { name: 'mission-manage', permissions: both },
]

/** All scopes by their names in requests and responses: `repo-code:r`, `repo-code:rw`, … */
export const allScopes: readonly string[] = scopeDefinitions.flatMap(({ name, permissions }) =>
  permissions.map((permission) => `${name}:${permission}`),
)

const known = new Set(allScopes)

/**
 * The scopes of OpenID Connect (OPENID 243). Only applications have them. `profile` and `email` show in ID tokens and at the
 * userinfo endpoint what `account-profile:r` and `account-email:r` show in the API.
 */
export const openidScopes = ['openid', 'profile', 'email'] as const
const ofOpenid = new Set<string>(openidScopes)

/** Returns whether the scope is one of OpenID Connect. */
export function isOpenidScope(scope: string): boolean {
  return ofOpenid.has(scope)
}

/** Returns whether an application may have the scope. */
export function isApplicationScope(scope: string): boolean {
  return isScope(scope) || isOpenidScope(scope)
}

/** Returns whether SPEC 2.4 lists the scope with this permission type. */
export function isScope(scope: string): boolean {
  return known.has(scope)
}

/**
 * Returns the scopes of a request without duplicates. Beside `openid`, `offline_access` is left out: it asks for a refresh
 * token, which every application gets (OPENID 259, OpenID Connect Core §11).
 */
export function splitScope(scope: string): string[] {
  const names = [...new Set(scope.split(' '))]
  return names.includes('openid') ? names.filter((name) => name !== 'offline_access') : names
}

/** Returns whether the granted scopes cover the requested one: `:rw` covers `:r` (CONTRACT 1.11). */
export function covers(granted: readonly string[], asked: string): boolean {
  return granted.includes(asked) || (asked.endsWith(':r') && granted.includes(`${asked}w`))
}

/** Returns whether the granted scopes cover every requested one. */
export function coversAll(granted: readonly string[], asked: readonly string[]): boolean {
  return asked.every((scope) => covers(granted, scope))
}

/** How far a permission goes: read-only or read-write (SPEC 2.4). */
export type Permission = 'r' | 'rw'

/** A scope of SPEC 2.4 with the permission types it is listed with. */
export interface ScopeDefinition {
  name: string
  permissions: readonly Permission[]
}

const both = ['r', 'rw'] as const
const readOnly = ['r'] as const
const readWriteOnly = ['rw'] as const

/**
 * The permission scopes of SPEC 2.4, in its order. The suffix of a read-write permission is "not shown" there:
 * it is `:rw`, and a scope listed with one permission type only has that one.
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

/** Every scope as it stands in requests and answers: `repo-code:r`, `repo-code:rw`, … */
export const allScopes: readonly string[] = scopeDefinitions.flatMap(({ name, permissions }) =>
  permissions.map((permission) => `${name}:${permission}`),
)

const known = new Set(allScopes)

/** True for a scope of SPEC 2.4 with a permission type it is listed with. */
export function isScope(scope: string): boolean {
  return known.has(scope)
}

/** True when one of the granted scopes gives the asked one: `:rw` covers `:r` (DESIGN §1). */
export function covers(granted: readonly string[], asked: string): boolean {
  return granted.includes(asked) || (asked.endsWith(':r') && granted.includes(`${asked}w`))
}

/** True when every asked scope is covered by the granted ones. */
export function coversAll(granted: readonly string[], asked: readonly string[]): boolean {
  return asked.every((scope) => covers(granted, scope))
}

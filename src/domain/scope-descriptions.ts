import type { ResourceScope } from './permissions.ts'
import { allScopes, openidScopes } from './scopes.ts'

/** The description of a scope. */
export interface DescribedScope {
  /** The name in requests, such as `repo-code:r` or `openid`. */
  scope: string
  access: 'Read-only' | 'Read-write'
  /** The actions that the scope allows, such as "Clone and fetch your code with Git". */
  can: string
  /** A warning about dangerous scopes; null for most scopes. */
  warning: string | null
}

/** Scopes that belong together. */
export interface ScopeGroup {
  title: string
  scopes: DescribedScope[]
}

/** What `:r` and `:rw` allow. Null if SPEC 2.4 does not list that permission type. */
type Description = readonly [read: string | null, readWrite: string | null]

const groups: Record<string, Record<string, Description>> = {
  Code: {
    'repo-code': [
      'Clone and fetch your repositories with Git',
      'Clone, fetch and push to your repositories with Git',
    ],
    'repo-contents': [
      'See files, branches, commits, tags and versions',
      'See, create, change and remove files, branches, tags and versions',
    ],
    'repo-pr': ['See pull requests', 'See, open, change and merge pull requests'],
    'repo-issue': ['See issues', 'See, open, change and close issues'],
    'repo-notes': [
      'See comments in issues and pull requests',
      'See, write, change and remove comments in issues and pull requests',
    ],
    'repo-basic-info': ['See the names, descriptions, languages and licenses of your repositories', null],
    'repo-security': ['See the security findings of your repositories', null],
    'repo-manage': [
      'See the members and settings of your repositories',
      'See and change the members and settings of your repositories',
    ],
    'repo-delete': [null, 'Delete your repositories and everything in them'],
  },
  'Builds and environments': {
    'repo-commit-status': [
      'See pipeline status, badges and commit metadata',
      'See and set pipeline status, badges and commit metadata',
    ],
    'repo-svc-trigger': [
      'See cloud builds',
      'See, start, run and delete cloud builds, and start cloud development environments',
    ],
    'repo-svc-history': ['See the history of pipeline builds', null],
    'repo-svc-detail': ['See cloud development spaces', 'See and delete cloud development spaces'],
  },
  Packages: {
    'registry-package': ['See and install packages', 'See, install and publish packages'],
    'registry-package-delete': [null, 'Delete packages and their versions'],
    'registry-manage': [
      'See the members and settings of package registries',
      'See and change the members and settings of package registries',
    ],
    'registry-delete': [null, 'Delete package registries and everything in them'],
  },
  'Your account': {
    'account-profile': ['See your profile: username and display name', 'See and change your profile'],
    'account-email': ['See your verified email address', 'See and change your verified email address'],
    'account-engage': [
      'See the repositories and people you follow, your followers, and your cloud development environments',
      'See and change the repositories and people you follow, and your cloud development environments',
    ],
  },
  Groups: {
    'group-resource': [
      'See your groups and their repositories',
      'See, create and change groups and their repositories',
    ],
    'group-manage': [
      'See the members and settings of your groups',
      'See and change the members and settings of your groups',
    ],
    'group-delete': ['See which groups you could delete', 'Delete groups and everything in them'],
  },
  Missions: {
    'mission-manage': ['See mission sets', 'See, create and change mission sets'],
    'mission-delete': ['See which mission sets you could delete', 'Delete mission sets'],
  },
}

/** What the scopes of OpenID Connect allow, in the order of `openidScopes`. */
const signInDescriptions: Record<(typeof openidScopes)[number], string> = {
  openid: 'Sign you in with your account here',
  profile: 'See your profile: username and display name',
  email: 'See your email address, and whether it is verified',
}

/** Describes those of the scopes that are of OpenID Connect. */
function describeSignIn(scopes: readonly string[]): DescribedScope[] {
  return openidScopes
    .filter((scope) => scopes.includes(scope))
    .map((scope) => ({ scope, access: 'Read-only', can: signInDescriptions[scope], warning: null }))
}

/**
 * Describes scopes, in groups and a fixed order. Empty groups are left out. A `:r` scope is left out when its `:rw` is
 * present, because `:rw` covers it (CONTRACT 1.11).
 */
export function describeScopes(scopes: readonly string[]): ScopeGroup[] {
  const described = Object.entries(groups).map(([title, descriptions]) => ({
    title,
    scopes: Object.entries(descriptions).flatMap(([name, description]) =>
      describeScope(name, description, scopes),
    ),
  }))
  const signIn = { title: 'Sign-in', scopes: describeSignIn(scopes) }
  return [signIn, ...described].filter((group) => group.scopes.length > 0)
}

/**
 * Returns the wanted scopes, in the groups and the order of `describeScopes`. The read-only scope of a name comes
 * before its read-write scope.
 */
export function scopeChoices(isWanted: (scope: string) => boolean = () => true): ScopeGroup[] {
  const read = describeScopes(allScopes.filter((scope) => scope.endsWith(':r'))).flatMap(
    ({ scopes }) => scopes,
  )
  const choices = describeScopes(allScopes).map(({ title, scopes }) => ({
    title,
    scopes: scopes
      .flatMap((widest) => [...read.filter(({ scope }) => `${scope}w` === widest.scope), widest])
      .filter(({ scope }) => isWanted(scope)),
  }))
  return choices.filter(({ scopes }) => scopes.length > 0)
}

/** Describes a resource scope to the person who authorizes it (SPEC 2.1, Authorization Resource Scope). */
export function describeResourceScope(resourceScope: ResourceScope): string {
  return {
    all: 'Everything your account can access, private repositories included',
    public: 'Public repositories only',
    specified: 'Only the repositories you choose',
  }[resourceScope]
}

/** Describes the resource scope of an application for administrators, who read about other people. */
export function describeResourceScopeOfOthers(resourceScope: ResourceScope): string {
  return {
    all: 'Everything that the person’s account can access, private repositories included',
    public: 'Public repositories only',
    specified: 'Only the repositories that the person chooses',
  }[resourceScope]
}

function describeScope(
  name: string,
  [read, readWrite]: Description,
  scopes: readonly string[],
): DescribedScope[] {
  if (readWrite && scopes.includes(`${name}:rw`)) {
    return [{ scope: `${name}:rw`, access: 'Read-write', can: readWrite, warning: warningOf(name) }]
  }
  if (!read || !scopes.includes(`${name}:r`)) return []
  return [{ scope: `${name}:r`, access: 'Read-only', can: read, warning: null }]
}

/** Returns the warning for a delete or manage scope, or null. */
function warningOf(name: string): string | null {
  if (name.endsWith('-delete')) return 'Can delete permanently'
  if (name === 'mission-manage') return 'Can change every mission set'
  return name.endsWith('-manage') ? 'Can change who has access' : null
}

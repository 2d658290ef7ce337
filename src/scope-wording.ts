import type { ResourceScope } from './permissions.ts'

/** A scope as people read it. */
export interface WordedScope {
  /** As it stands in requests: `repo-code:r`. */
  scope: string
  title: string
  access: 'Read-only' | 'Read-write'
  /** What its holder can do: "Clone and fetch your code with Git". */
  can: string
  /** Why to think twice; null for most. */
  warning: string | null
}

/** Scopes that belong together. */
export interface WordedScopes {
  title: string
  scopes: WordedScope[]
}

/** Title, then what `:r` and `:rw` allow; null where SPEC 2.4 does not list the permission type. */
type Wording = readonly [title: string, read: string | null, readWrite: string | null]

const groups: Record<string, Record<string, Wording>> = {
  Code: {
    'repo-code': [
      'Code through Git',
      'Clone and fetch your repositories with Git',
      'Clone, fetch and push to your repositories with Git',
    ],
    'repo-contents': [
      'Repository contents',
      'See files, branches, commits, tags and versions',
      'See, create, change and remove files, branches, tags and versions',
    ],
    'repo-pr': ['Pull requests', 'See pull requests', 'See, open, change and merge pull requests'],
    'repo-issue': ['Issues', 'See issues', 'See, open, change and close issues'],
    'repo-notes': [
      'Comments',
      'See comments in issues and pull requests',
      'See, write, change and remove comments in issues and pull requests',
    ],
    'repo-basic-info': [
      'Basic repository information',
      'See the names, descriptions, languages and licenses of your repositories',
      null,
    ],
    'repo-security': ['Repository security', 'See the security findings of your repositories', null],
    'repo-manage': [
      'Repository settings and members',
      'See the members and settings of your repositories',
      'See and change the members and settings of your repositories',
    ],
    'repo-delete': ['Deleting repositories', null, 'Delete your repositories and everything in them'],
  },
  'Builds and environments': {
    'repo-commit-status': [
      'Commit status',
      'See pipeline status, badges and commit metadata',
      'See and set pipeline status, badges and commit metadata',
    ],
    'repo-svc-trigger': [
      'Cloud builds',
      'See cloud builds',
      'See, start, run and delete cloud builds, and start cloud development environments',
    ],
    'repo-svc-history': ['Build history', 'See the history of pipeline builds', null],
    'repo-svc-detail': [
      'Cloud development spaces',
      'See cloud development spaces',
      'See and delete cloud development spaces',
    ],
  },
  Packages: {
    'registry-package': ['Packages', 'See and install packages', 'See, install and publish packages'],
    'registry-package-delete': ['Deleting packages', null, 'Delete packages and their versions'],
    'registry-manage': [
      'Registry settings and members',
      'See the members and settings of package registries',
      'See and change the members and settings of package registries',
    ],
    'registry-delete': ['Deleting registries', null, 'Delete package registries and everything in them'],
  },
  'Your account': {
    'account-profile': [
      'Profile',
      'See your profile: username and display name',
      'See and change your profile',
    ],
    'account-email': [
      'Email address',
      'See your verified email address',
      'See and change your verified email address',
    ],
    'account-engage': [
      'Follows and activity',
      'See the repositories you follow, your followers, whom you follow, and your cloud development environments',
      'See and change the repositories and people you follow, and your cloud development environments',
    ],
  },
  Organizations: {
    'group-resource': [
      'Organization contents',
      'See sub-organizations and their repositories',
      'See, create and change sub-organizations and their repositories',
    ],
    'group-manage': [
      'Organization settings and members',
      'See organization members, repository walls and settings',
      'See and change organization members, repository walls and settings',
    ],
    'group-delete': [
      'Deleting organizations',
      'See which organizations you could delete',
      'Delete organizations and everything in them',
    ],
  },
  Missions: {
    'mission-manage': ['Mission sets', 'See mission sets', 'See, create and change mission sets'],
    'mission-delete': [
      'Deleting mission sets',
      'See which mission sets you could delete',
      'Delete mission sets',
    ],
  },
}

/**
 * The scopes in plain words, in groups and a fixed order; groups without one are left out. A `:r` scope is
 * left out when its `:rw` is there, which covers it (DESIGN §1).
 */
export function wordScopes(scopes: readonly string[]): WordedScopes[] {
  return Object.entries(groups)
    .map(([title, wordings]) => ({
      title,
      scopes: Object.entries(wordings).flatMap(([name, wording]) => wordScope(name, wording, scopes)),
    }))
    .filter((group) => group.scopes.length > 0)
}

/** How far an application or a token reaches, in words (SPEC 2.1, Authorization Resource Scope). */
export function wordResourceScope(resourceScope: ResourceScope): string {
  return {
    all: 'Everything your account can reach, private repositories included',
    public: 'Public repositories only',
    specified: 'Only the repositories you choose',
  }[resourceScope]
}

function wordScope(
  name: string,
  [title, read, readWrite]: Wording,
  scopes: readonly string[],
): WordedScope[] {
  if (readWrite && scopes.includes(`${name}:rw`)) {
    return [{ scope: `${name}:rw`, title, access: 'Read-write', can: readWrite, warning: warningOf(name) }]
  }
  if (!read || !scopes.includes(`${name}:r`)) return []
  return [{ scope: `${name}:r`, title, access: 'Read-only', can: read, warning: null }]
}

/** What writes of the delete and manage scopes can break. */
function warningOf(name: string): string | null {
  if (name.endsWith('-delete')) return 'Can delete for good'
  return name.endsWith('-manage') ? 'Can change who has access' : null
}

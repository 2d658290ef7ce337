import { coversPackage, type PublisherRight } from './publisher.ts'
import { allScopes, coversAll } from './scopes.ts'
import type { TokenKind } from './secrets.ts'

/** A member's role on a group or a repository, weakest first (CONTRACT 1.3). */
export const roles = ['guest', 'developer', 'admin'] as const
export type Role = (typeof roles)[number]

export const visibilities = ['private', 'public'] as const
export type Visibility = (typeof visibilities)[number]

/** How versions of a repository or a package are released: at once, or staged until a developer releases them. */
export const releaseRules = ['direct', 'reviewed'] as const
export type ReleaseRule = (typeof releaseRules)[number]

/** Which repositories an application or a token may access (SPEC 2.1, Authorization Resource Scope). */
export const resourceScopes = ['all', 'public', 'specified'] as const
export type ResourceScope = (typeof resourceScopes)[number]

/** How long a second factor or a passkey is enough to release or reject a staged version. */
export const factorProofSeconds = 5 * 60

/** Where an act happens, and what it takes. Every act of pages, API and commands has one entry in `acts`. */
interface ActRule {
  /** `site` is for site administrators; `administrator` is about an account with that role. */
  on: 'repository' | 'group' | 'account' | 'site' | 'administrator'
  /** The scope that a token needs. */
  scope: string
  /** Scopes that a token needs too. */
  moreScopes?: readonly string[]
  /** The weakest role on the repository or group. */
  role?: Role
  /**
   * - `deletes`: it removes what others use;
   * - `opens`: it makes a credential or weakens a protection. What it makes would outlive the withdrawal of an
   *   application, so applications never do it.
   */
  risk?: 'deletes' | 'opens'
  /** Whether only people do it, with a token that they made for themselves: no consent page asks for it. */
  isForPeople?: true
  /** Whether only a browser or a command does it, and no token at all. */
  isInteractive?: true
}

const acts = {
  describe: { on: 'repository', scope: 'repo-basic-info:r', role: 'guest' },
  pull: { on: 'repository', scope: 'registry-package:r', role: 'guest' },
  push: { on: 'repository', scope: 'registry-package:rw', role: 'developer' },
  // Also to see what is staged. Who may push may do this too.
  stage: { on: 'repository', scope: 'registry-package:rw', role: 'developer' },
  // Nobody releases with a stolen token. Pages ask for a second factor.
  decideStage: { on: 'repository', scope: 'registry-package:rw', role: 'developer', isInteractive: true },
  deletePackage: { on: 'repository', scope: 'registry-package-delete:rw', role: 'admin', risk: 'deletes' },
  restorePackage: { on: 'repository', scope: 'registry-package-delete:rw', role: 'admin' },
  readSettings: { on: 'repository', scope: 'registry-manage:r', role: 'admin' },
  manage: { on: 'repository', scope: 'registry-manage:rw', role: 'admin' },
  // An admin can make credentials, and stays one after the withdrawal of the application.
  appointAdmin: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  trustPublisher: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  addSource: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  addWebhook: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  // Its rules go on deleting.
  setRetention: { on: 'repository', scope: 'registry-package-delete:rw', role: 'admin', risk: 'opens' },
  // Both ways: it protects a package, and locks everybody else out of publishing it.
  limitPublishers: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  removeUpstream: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'deletes' },
  // Other upstreams may then serve these names.
  unbindNames: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  endReviews: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  makePublic: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  forgetArchives: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  decideContest: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  liftQuarantine: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  withdrawAdvisory: { on: 'repository', scope: 'registry-manage:rw', role: 'admin', risk: 'opens' },
  deleteRepository: { on: 'repository', scope: 'registry-delete:rw', role: 'admin', risk: 'deletes' },

  createRepository: { on: 'group', scope: 'group-resource:rw', role: 'admin' },
  restoreRepository: { on: 'group', scope: 'registry-delete:rw', role: 'admin' },
  readGroup: { on: 'group', scope: 'group-manage:r', role: 'admin' },
  // They contain the events of the group's repositories.
  readGroupEvents: {
    on: 'group',
    scope: 'group-manage:r',
    moreScopes: ['registry-manage:r'],
    role: 'admin',
  },
  readProjects: { on: 'group', scope: 'registry-package:r', role: 'guest' },
  // A lock file says what somebody installs: who may read packages and develops here may say it.
  reportLock: { on: 'group', scope: 'registry-package:r', role: 'developer' },
  deleteProject: { on: 'group', scope: 'group-manage:rw', role: 'admin', risk: 'deletes' },
  readPolicies: { on: 'group', scope: 'registry-package:r', role: 'guest' },
  // A change can allow what nobody should install.
  managePolicies: { on: 'group', scope: 'group-manage:rw', role: 'admin', risk: 'opens' },
  manageGroup: { on: 'group', scope: 'group-manage:rw', role: 'admin' },
  appointGroupAdmin: { on: 'group', scope: 'group-manage:rw', role: 'admin', risk: 'opens' },
  releaseVendor: { on: 'group', scope: 'group-manage:rw', role: 'admin', risk: 'opens' },
  makeDeployToken: { on: 'group', scope: 'group-manage:rw', role: 'admin', risk: 'opens' },
  addGroupWebhook: { on: 'group', scope: 'group-manage:rw', role: 'admin', risk: 'opens' },
  invite: { on: 'group', scope: 'group-manage:rw', role: 'admin', risk: 'opens' },
  waiveSecondFactor: { on: 'group', scope: 'group-manage:rw', role: 'admin', risk: 'opens' },

  readProfile: { on: 'account', scope: 'account-profile:r' },
  changeProfile: { on: 'account', scope: 'account-profile:rw' },
  readEmails: { on: 'account', scope: 'account-email:r' },
  listGroups: { on: 'account', scope: 'group-resource:r' },
  listRepositories: { on: 'account', scope: 'repo-basic-info:r' },
  findArchives: { on: 'account', scope: 'registry-package:r' },
  createGroup: { on: 'account', scope: 'group-resource:rw', isForPeople: true },
  leaveGroup: { on: 'account', scope: 'group-resource:rw', isForPeople: true },
  readOwnAccess: { on: 'account', scope: 'account-profile:r', isForPeople: true },
  endOwnSession: { on: 'account', scope: 'account-profile:rw', isForPeople: true },
  readNotifications: { on: 'account', scope: 'account-profile:r', isForPeople: true },
  changeNotifications: { on: 'account', scope: 'account-profile:rw', isForPeople: true },
  // The export contains what the acts with these scopes return: emails, groups and names of private repositories.
  exportOwnAccount: {
    on: 'account',
    scope: 'account-profile:r',
    moreScopes: ['account-email:r', 'group-resource:r', 'repo-basic-info:r'],
    isForPeople: true,
  },
  makePersonalToken: { on: 'account', scope: 'account-profile:rw', risk: 'opens' },

  readSite: { on: 'site', scope: 'group-manage:r' },
  readSiteEvents: { on: 'site', scope: 'registry-manage:r' },
  manageAccounts: { on: 'site', scope: 'group-manage:rw' },
  manageApplications: { on: 'site', scope: 'group-manage:rw' },
  inviteToSite: { on: 'site', scope: 'group-manage:rw' },
  manageWebhooks: { on: 'site', scope: 'group-manage:rw' },
  renameGroup: { on: 'site', scope: 'group-manage:rw' },
  deleteGroup: { on: 'site', scope: 'group-delete:rw' },
  changeAdministrator: { on: 'administrator', scope: 'group-manage:rw' },
} as const satisfies Record<string, ActRule>

/** The name of something that a request or command can do. */
export type Act = keyof typeof acts
type ActOn<Place> = { [A in Act]: (typeof acts)[A]['on'] extends Place ? A : never }[Act]
/** Actions for a repository, on a group, on one's own account, and on the site. */
export type RepositoryAct = ActOn<'repository'>
export type GroupAct = ActOn<'group'>
export type AccountAct = ActOn<'account'>
export type SiteAct = ActOn<'site' | 'administrator'>

/** The names of all acts, in the order of the table. */
export const allActs = Object.keys(acts) as Act[]

const ruleOf = (act: Act): ActRule => acts[act]

/** The scopes that the acts of site administrators need. */
export const siteScopes: readonly string[] = ['group-manage:rw', 'group-delete:rw', 'registry-manage:rw']

/**
 * The scopes of SPEC 2.4 that svc itself checks. Other services check the other scopes: they introspect the token.
 */
export const enforcedScopes: readonly string[] = [...new Set(allActs.map((act) => acts[act].scope))]

/**
 * The rights that a deploy token can have. A deploy token belongs to a group and has a role on the repositories of that
 * group only.
 */
export const deployRights = {
  read: { role: 'guest', scopes: ['registry-package:r', 'repo-basic-info:r'] },
  publish: { role: 'developer', scopes: ['registry-package:rw', 'repo-basic-info:r'] },
  // Reads packages, and reports the lock files of projects.
  report: { role: 'developer', scopes: ['registry-package:r', 'repo-basic-info:r'] },
} as const satisfies Record<string, { role: Role; scopes: readonly string[] }>

export type DeployRight = keyof typeof deployRights

/** What a request or command proves its rights with. `session` is a browser, `command` the command line. */
export type CredentialKind = TokenKind | 'session' | 'command'

/** The permissions of a credential. */
export interface TokenGrant {
  kind: CredentialKind
  scopes: readonly string[]
  resourceScope: ResourceScope
  /** The ids of the chosen repositories. Used when the resource scope is `specified`. */
  repositoryIds: readonly string[]
  /** What a token of a trusted publisher may do with which packages. Other tokens have none. */
  rights?: readonly PublisherRight[]
}

/** A credential, with the right of a site administrator or without. Of the tokens, only admin tokens carry it. */
export interface Credential extends TokenGrant {
  isSiteAdmin: boolean
}

/** A browser session, or the command line, has all the access of its account. */
export function fullCredential(kind: 'session' | 'command', isSiteAdmin: boolean): Credential {
  return { kind, scopes: allScopes, resourceScope: 'all', repositoryIds: [], isSiteAdmin }
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
 * - `forbidden`: the account's role, or the token's resource scope, does not allow it;
 * - `uncovered`: the trusted publisher of the token does not have the right for the package;
 * - `personal`: only people do it, not applications, deploy tokens and trusted publishers;
 * - `administrator`: only site administrators do it, and of their tokens only admin tokens;
 * - `interactive`: no token does it, only browsers and commands.
 */
export type Verdict =
  | 'allowed'
  | 'hidden'
  | 'unscoped'
  | 'forbidden'
  | 'uncovered'
  | 'personal'
  | 'administrator'
  | 'interactive'

/** Returns what an act is about: a repository, a group, the account of the credential, or the site. */
export function placeOf(act: Act): ActRule['on'] {
  return ruleOf(act).on
}

/** Returns the scopes that an act requires, such as `registry-package:rw`. The first is the one that it is about. */
export function scopesOf(act: Act): [string, ...string[]] {
  const { scope, moreScopes = [] } = ruleOf(act)
  return [scope, ...moreScopes]
}

/**
 * Returns whether a browser needs a recent proof of identity for an act. Personal access tokens were made with one, and
 * applications do only those of these acts that delete, with a scope that says so.
 */
export function needsProof(act: Act): boolean {
  return ruleOf(act).risk !== undefined || isOnSite(act)
}

/** Returns whether only people do an act, and no application, deploy token or trusted publisher. */
export function isForPeople(act: Act): boolean {
  const { risk, isForPeople = false } = ruleOf(act)
  return isForPeople || risk === 'opens' || isOnSite(act)
}

/** Returns whether applications can do an act. */
export function isForApplications(act: Act): boolean {
  return !isForPeople(act) && ruleOf(act).isInteractive !== true
}

/** Returns whether only site administrators do an act. */
export function isOnSite(act: Act): boolean {
  return placeOf(act) === 'site' || placeOf(act) === 'administrator'
}

/**
 * Applies the permission rule to an act on a repository (CONTRACT 1.10): the token's scope covers the act, its resource
 * scope includes the repository, and the account's role allows the act. `token` is null for a request without
 * credentials. Anyone may pull from a public repository, with any token or none. A token of a trusted publisher needs the
 * right for the package, too.
 */
export function decideAccess(
  token: TokenGrant | null,
  repository: RepositoryForAccount,
  act: RepositoryAct,
  about: ActDetails = {},
): Verdict {
  const isPublic = repository.visibility === 'public'
  const role = repository.role ?? (isPublic ? 'guest' : null)
  if (isPublic && act === 'pull') return 'allowed'
  if (!token) return isPublic ? 'forbidden' : 'hidden'
  if (!isPublic && !(role && isInResourceScope(token, repository))) return 'hidden'
  const own = decideForToken(token, act)
  if (own !== 'allowed') return own
  if (!isInResourceScope(token, repository) || !isAtLeast(role, acts[act].role)) return 'forbidden'
  return token.kind === 'publisher' && !isCovered(token, act, about) ? 'uncovered' : 'allowed'
}

/** Details of an act in a repository that decide what a token of a trusted publisher may do. */
export interface ActDetails {
  /** Missing for an act that is not about one package, such as a search. */
  packageName?: string
}

function isCovered({ rights = [] }: TokenGrant, act: RepositoryAct, about: ActDetails): boolean {
  const needed = act === 'push' ? 'publish' : act === 'stage' ? 'stage' : 'read'
  return coversPackage(rights, needed, about.packageName ?? null)
}

/**
 * Applies the permission rule to an act on a group: settings of a group affect all its repositories, so a token for some
 * of them is not enough. `role` is the role on the group; null for none.
 */
export function decideOnGroup(token: TokenGrant, role: Role | null, act: GroupAct): Verdict {
  const own = decideForToken(token, act)
  if (own !== 'allowed') return own
  return token.resourceScope === 'all' && isAtLeast(role, acts[act].role) ? 'allowed' : 'forbidden'
}

/** Applies the permission rule to an act on the account of the credential itself. */
export function decideOnAccount(token: TokenGrant, act: AccountAct): Verdict {
  const own = decideForToken(token, act)
  if (own !== 'allowed') return own
  return token.resourceScope === 'all' || !isForPeople(act) ? 'allowed' : 'forbidden'
}

/** Applies the permission rule to an act of site administration. */
export function decideOnSite(credential: Credential, act: SiteAct): Verdict {
  if (decideForToken(credential, act) === 'unscoped') return 'unscoped'
  if (!credential.isSiteAdmin) return 'administrator'
  return ruleOf(act).on === 'administrator' && credential.kind === 'personal' ? 'interactive' : 'allowed'
}

/** What a token of a trusted publisher can do. Each act needs the right for its package, too. */
const publisherActs: readonly Act[] = ['pull', 'stage', 'push']

/** Applies the part of the rule that is about the credential alone: its scopes and its kind. */
function decideForToken({ scopes, kind }: TokenGrant, act: Act): Verdict {
  if (!coversAll(scopes, scopesOf(act))) return 'unscoped'
  if (kind === 'publisher') return publisherActs.includes(act) ? 'allowed' : 'personal'
  if (ruleOf(act).isInteractive && kind !== 'session' && kind !== 'command') return 'interactive'
  const isOfPerson = kind !== 'access' && kind !== 'deploy'
  return isOfPerson || !isForPeople(act) ? 'allowed' : 'personal'
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

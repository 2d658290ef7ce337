/**
 * The actions on accounts, their credentials, and applications, with the words of pages. They are the identity events:
 * only these are written to the log and cause mails.
 */
export const identityWords = {
  'sign-in': 'Signed in',
  'sign-in-failed': 'Sign-in failed: wrong password',
  'sign-in-locked': 'Sign-in locked: too many wrong passwords',
  'sign-out': 'Signed out',
  'session-ended': 'Session ended',
  'password-changed': 'Password changed',
  'reset-link-created': 'Link for a new password created',
  'password-reset-requested': 'Link for a new password requested by mail',
  'second-factor-added': 'Second factor added',
  'second-factor-removed': 'Second factor removed',
  'second-factor-failed': 'Second factor failed',
  'recovery-codes-created': 'Recovery codes created',
  'recovery-code-used': 'Recovery code used',
  'email-changed': 'Email address changed',
  'email-verified': 'Email address verified',
  'account-created': 'Account created',
  'account-renamed': 'Username changed',
  'account-disabled': 'Account disabled',
  'account-enabled': 'Account enabled',
  'account-deleted': 'Account deleted',
  'invitation-created': 'Invitation created',
  'invitation-accepted': 'Invitation accepted',
  'invitation-withdrawn': 'Invitation withdrawn',
  'admin-granted': 'Became a site administrator',
  'admin-removed': 'No longer a site administrator',
  'identity-linked': 'Account of a sign-in provider linked',
  'identity-unlinked': 'Account of a sign-in provider unlinked',
  'groups-changed': 'Groups changed by a sign-in provider',
  'token-created': 'Token created',
  'token-first-used': 'Token used for the first time',
  'token-revoked': 'Token revoked',
  'deploy-token-created': 'Deploy token created',
  'deploy-token-first-used': 'Deploy token used for the first time',
  'deploy-token-revoked': 'Deploy token revoked',
  'consent-given': 'Application authorized',
  'consent-narrowed': 'Application authorized for less than before',
  'authorization-withdrawn': 'Authorization withdrawn',
  'code-replayed': 'Authorization code used twice',
  'refresh-token-reused': 'Refresh token used after it was replaced',
  'application-registered': 'Application registered',
  'application-pending': 'Application waits for review',
  'application-approved': 'Application approved',
  'application-suspended': 'Application suspended',
  'application-declined': 'Application declined',
  'application-changed': 'Application changed',
  'application-deleted': 'Application deleted',
  'application-secret-rotated': 'Client secret rotated',
} as const

export type IdentityAction = keyof typeof identityWords

export const identityActions = Object.keys(identityWords) as IdentityAction[]

/** The actions of an application's history: who registered, reviewed and changed it. */
export const applicationActions = identityActions.filter((action) => action.startsWith('application-'))

/** The actions on packages, repositories and groups, with the words that follow the name of the account on pages. */
export const registryWords = {
  publish: 'published',
  stage: 'staged',
  attest: 'added attestations to',
  'approve-release': 'approved the release of',
  'release-stage': 'released',
  reject: 'rejected',
  expire: 'let expire',
  delete: 'deleted',
  restore: 'restored',
  purge: 'purged',
  abandon: 'marked as abandoned',
  unabandon: 'marked as maintained',
  quarantine: 'quarantined',
  release: 'released from quarantine',
  advise: 'published an advisory for',
  withdraw: 'withdrew an advisory for',
  'set-member': 'gave a role in the repository',
  'remove-member': 'took away a role in the repository',
  'set-group-member': 'gave a role in the group',
  'remove-group-member': 'took away a role in the group',
  'create-repository': 'created the repository',
  'delete-repository': 'deleted the repository',
  'purge-repository': 'removed the deleted repository for good',
  'restore-repository': 'restored the repository',
  'change-repository': 'changed the settings of the repository',
  'rename-repository': 'renamed the repository',
  'change-package': 'changed the settings of',
  'create-group': 'created the group',
  'rename-group': 'renamed the group',
  'set-group': 'changed the settings of the group',
  'delete-group': 'deleted the group',
  import: 'imported',
  'add-upstream': 'added the upstream',
  'set-upstream': 'changed the upstream',
  'remove-upstream': 'removed the upstream',
  'claim-vendor': 'claimed the vendor',
  'release-vendor': 'released the vendor',
  'request-package': 'requested the approval of',
  'approve-package': 'approved',
  'allow-versions': 'allowed new versions of',
  'mirror-package': 'mirrored for the first time',
  'drop-versions': 'the upstream no longer has versions of',
  'upstream-gone': 'the upstream no longer has',
  'archive-alarm': 'saw that an archive has changed',
  'forget-archive': 'forgot the stored bytes of an archive',
  // Events of earlier releases have this name.
  'accept-archive': 'accepted the new bytes of an archive',
  'contest-package': 'saw that another upstream has, too,',
  'decide-package': 'decided which upstream serves',
  'create-deploy-token': 'created a deploy token',
  'revoke-deploy-token': 'revoked a deploy token',
  'add-publisher': 'added a trusted publisher',
  'remove-publisher': 'removed a trusted publisher',
  'use-publisher': 'got a token as a trusted publisher for the first time',
  'refuse-publisher': 'got no token as a trusted publisher',
  'add-source': 'added a Git source',
  'remove-source': 'removed a Git source',
  'fail-source': 'could not read the Git repository',
  'refuse-tag': 'refused a tag that was moved',
} as const

export type RegistryAction = keyof typeof registryWords

/** Returns whether an action is about accounts, their credentials and applications. */
export function isIdentityAction(action: string): action is IdentityAction {
  return action in identityWords
}

/** Actions by what they are about, for filters. */
export const areas = {
  packages: {
    words: 'Packages',
    actions: [
      'publish',
      'import',
      'stage',
      'attest',
      'approve-release',
      'release-stage',
      'reject',
      'expire',
      'delete',
      'restore',
      'purge',
      'abandon',
      'unabandon',
      'quarantine',
      'release',
      'advise',
      'withdraw',
    ],
  },
  upstreams: {
    words: 'Upstreams and vendors',
    actions: [
      'add-upstream',
      'set-upstream',
      'remove-upstream',
      'claim-vendor',
      'release-vendor',
      'request-package',
      'approve-package',
      'allow-versions',
      'mirror-package',
      'drop-versions',
      'upstream-gone',
      'archive-alarm',
      'accept-archive',
      'forget-archive',
      'contest-package',
      'decide-package',
    ],
  },
  sources: {
    words: 'Git sources',
    actions: ['add-source', 'remove-source', 'fail-source', 'refuse-tag'],
  },
  settings: {
    words: 'Groups and repositories',
    actions: [
      'create-repository',
      'change-repository',
      'change-package',
      'rename-repository',
      'delete-repository',
      'purge-repository',
      'restore-repository',
      'create-group',
      'set-group',
      'rename-group',
      'delete-group',
    ],
  },
  members: {
    words: 'Members and roles',
    actions: [
      'set-group-member',
      'remove-group-member',
      'set-member',
      'remove-member',
      'invitation-created',
      'invitation-accepted',
      'invitation-withdrawn',
      'groups-changed',
      'admin-granted',
      'admin-removed',
    ],
  },
  tokens: {
    words: 'Tokens',
    actions: [
      'token-created',
      'token-first-used',
      'token-revoked',
      'create-deploy-token',
      'deploy-token-first-used',
      'revoke-deploy-token',
      'add-publisher',
      'remove-publisher',
      'use-publisher',
      'refuse-publisher',
    ],
  },
  accounts: {
    words: 'Accounts and sign-in',
    actions: [
      'sign-in',
      'sign-in-failed',
      'sign-in-locked',
      'sign-out',
      'session-ended',
      'password-changed',
      'reset-link-created',
      'password-reset-requested',
      'second-factor-added',
      'second-factor-removed',
      'second-factor-failed',
      'recovery-codes-created',
      'recovery-code-used',
      'email-changed',
      'email-verified',
      'account-created',
      'account-renamed',
      'account-disabled',
      'account-enabled',
      'account-deleted',
      'identity-linked',
      'identity-unlinked',
    ],
  },
  applications: {
    words: 'Applications',
    actions: [
      'application-registered',
      'application-pending',
      'application-approved',
      'application-suspended',
      'application-declined',
      'application-changed',
      'application-deleted',
      'application-secret-rotated',
      'consent-given',
      'consent-narrowed',
      'authorization-withdrawn',
      'code-replayed',
      'refresh-token-reused',
    ],
  },
} as const satisfies Record<string, { words: string; actions: readonly (IdentityAction | RegistryAction)[] }>

export type Area = keyof typeof areas

export const areaNames = Object.keys(areas) as Area[]

/** The areas and actions that a filter can name. */
export const filterableActions: readonly string[] = [
  ...areaNames,
  ...Object.keys(registryWords),
  ...identityActions,
]

/** Returns the actions of an area, or the action itself. */
export function actionsOf(areaOrAction: string): readonly string[] {
  return areaOrAction in areas ? areas[areaOrAction as Area].actions : [areaOrAction]
}

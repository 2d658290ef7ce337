/**
 * The types of messages, and what each tells. A message about an event has the type that the SQL function `webhook_type_of`
 * gives to its action: a new type needs a line here and there.
 */
export const messageTypes = {
  'version.published': 'A version was published',
  'version.staged': 'A version was staged, and waits for its release',
  'version.released': 'A staged version was released',
  'version.rejected': 'A staged version was rejected',
  'version.expired': 'A staged version has expired: nobody released it',
  'version.deleted': 'A version, or a whole package, was deleted',
  'version.restored': 'A version, or a whole package, was restored',
  'version.quarantined': 'A version was quarantined',
  'package.abandoned': 'A package was marked as abandoned',
  'advisory.published': 'A security advisory was published for a package',
  'upstream.requested': 'Somebody requested the approval of a package of an upstream',
  'upstream.alarm': 'An archive of an upstream has changed, or another upstream has the same package',
  'source.failed': 'A Git source cannot be read, or a tag was moved',
  'token.expiring': 'A personal access token or a deploy token expires in 7 days, or in one day',
  'project.affected': 'A lock file of a project contains a package with a problem',
  'member.changed': 'A person got, changed or lost a role',
  ping: 'Somebody sent a test message',
} as const

export type MessageType = keyof typeof messageTypes

/** The types that a webhook can choose. Each gets a ping. */
export const choosableTypes = (Object.keys(messageTypes) as MessageType[]).filter((type) => type !== 'ping')

/** The formats of messages: the standard one, or what a chat displays. */
export const messageFormats = ['json', 'slack', 'teams', 'matrix'] as const
export type MessageFormat = (typeof messageFormats)[number]

import { isIdentityAction } from '../../events/actions.ts'
import type { Event } from '../../events/event.ts'
import { meansOf } from '../../events/event-list.ts'
import { capitalize, describeBrowser, putIntoWords } from '../../events/event-words.ts'

/** An event of any list. The lists of one account, repository or package leave out what all of their events share. */
export type EventParts = Pick<Event, 'happenedAt' | 'action' | 'details' | 'actor' | 'via' | 'ip'> &
  Partial<Event>

/** An event as `partials/event-rows` shows it. */
export interface ShownEvent {
  happenedAt: Date
  /** Who acted. */
  who: string
  said: string
  more: string
  /** What it is about, after the words. */
  places: { words: string; url: string | null; isCode?: true }[]
  /** How it was done. */
  means: string
  ip: string | null
}

/** What `partials/event-rows` shows. */
export interface EventRows {
  events: ShownEvent[]
  /** Whether it is not the first page. */
  isContinued: boolean
  isFiltered: boolean
  /** The query of the next page. Null on the last one. */
  next: string | null
}

/** Returns the URLs of what an event is about. Null for a place without one. */
export interface EventLinks {
  repository?: (path: string) => string
  package?: (event: EventParts, packageName: string) => string
  account?: (username: string) => string
}

/** Describes an event for a page. */
export function showEvent(event: EventParts, links: EventLinks = {}): ShownEvent {
  const { happenedAt, action, actor, ip, username, groupName, repositoryPath, packageName, version } = event
  const { said, more } = putIntoWords(event)
  const places: ShownEvent['places'] = []
  if (packageName) places.push({ words: packageName, url: links.package?.(event, packageName) ?? null })
  if (version) places.push({ words: version, url: null, isCode: true })
  if (repositoryPath) places.push({ words: repositoryPath, url: links.repository?.(repositoryPath) ?? null })
  else if (groupName && !isIdentityAction(action)) places.push({ words: groupName, url: null })
  if (username && username !== actor) places.push({ words: username, url: links.account?.(username) ?? null })
  return {
    happenedAt,
    who: describeActor(event),
    said: capitalize(said),
    more,
    places,
    means: describeMeans(event),
    ip,
  }
}

function describeActor({ actor, via, tokenKind, tokenName, application }: EventParts): string {
  if (actor !== null) return actor
  if (tokenKind === 'deploy') return `deploy token ${tokenName ?? ''}`.trim()
  if (tokenKind === 'publisher') return `trusted publisher ${tokenName ?? ''}`.trim()
  if (tokenKind === 'source') return `Git source ${tokenName ?? ''}`.trim()
  if (via === 'application') return `application ${application ?? 'that was deleted'}`
  if (via === 'command') return 'operator'
  return via === 'browser' ? 'not signed in' : 'svc or an operator'
}

/** Describes how something was done. The name of a personal access token is for the account that has it. */
function describeMeans({
  actor,
  via,
  tokenKind = null,
  ownTokenName = null,
  application = null,
  userAgent = null,
}: EventParts): string {
  const browser = userAgent === null ? null : describeBrowser(userAgent)
  return {
    browser: browser ?? 'Browser',
    'personal-token': ownTokenName === null ? 'Personal token' : `Your token “${ownTokenName}”`,
    'deploy-token': 'Deploy token',
    'publisher-token': 'Trusted publisher',
    source: 'Git source',
    application: application === null ? 'Application' : `Application ${application}`,
    command: 'Command line',
    svc: '',
  }[meansOf({ actor, via, tokenKind })]
}

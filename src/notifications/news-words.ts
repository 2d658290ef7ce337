import { formatNumber, formatTime } from '../domain/formats.ts'
import type { Event } from '../events/event.ts'
import { describeActor } from '../events/event-words.ts'
import { reviewUrl } from '../packages/stages/describe-stage.ts'

/** How mails tell of an action. `{what}` is a package, a version or an application, `{place}` a repository or group. */
interface Words {
  one: string
  many: string
  /** The page that shows it, below that of the repository or group. With `isOnSite` it is the path itself. */
  page: string
  isOnSite?: true
  /** The page for the account that the event is about, if that differs. */
  ownPage?: string
  /** The details of the event that are told. */
  details: readonly string[]
  /** Whether it is told who did it. Watchers need not know. */
  hasActor?: true
}

const words: Record<string, Words> = {
  publish: {
    one: '{what} was published in {place}',
    many: '{count} versions were published in {place}',
    page: '',
    details: [],
  },
  stage: {
    one: '{what} waits for its release in {place}',
    many: '{count} versions wait for their release in {place}',
    page: '/-/stages',
    details: [],
    hasActor: true,
  },
  'request-package': {
    one: '{what} waits for its approval in {place}',
    many: '{count} packages of upstreams wait for their approval in {place}',
    page: '/-/upstreams',
    details: [],
    hasActor: true,
  },
  'application-registered': {
    one: 'The application {what} waits for its review',
    many: '{count} applications wait for their review',
    page: '/admin/applications',
    isOnSite: true,
    details: [],
    hasActor: true,
  },
  'application-pending': {
    one: 'The application {what} waits for another review',
    many: '{count} applications wait for another review',
    page: '/admin/applications',
    isOnSite: true,
    details: ['reason'],
    hasActor: true,
  },
  'archive-alarm': {
    one: 'An archive of {what} has changed at the upstream of {place}',
    many: '{count} archives have changed at upstreams of {place}',
    page: '/-/upstreams',
    details: ['upstream', 'reason'],
  },
  'contest-package': {
    one: 'Two upstreams of {place} have {what}',
    many: 'Two upstreams of {place} have the same {count} packages',
    page: '/-/upstreams',
    details: ['upstream', 'also_at'],
  },
  'fail-source': {
    one: 'A Git source of {place} cannot be read',
    many: '{count} Git sources of {place} cannot be read',
    page: '/-/sources',
    details: ['url', 'failure'],
  },
  'refuse-tag': {
    one: 'A tag of {what} was moved in a Git source of {place}',
    many: '{count} tags were moved in Git sources of {place}',
    page: '/-/sources',
    details: ['tag'],
  },
  'disable-webhook': {
    one: 'A webhook of {place} was disabled, because its receiver fails',
    many: '{count} webhooks of {place} were disabled, because their receivers fail',
    page: '/-/webhooks',
    details: ['url', 'reason'],
  },
  'webhook-disabled': {
    one: 'A webhook of the site was disabled, because its receiver fails',
    many: '{count} webhooks of the site were disabled, because their receivers fail',
    page: '/admin/webhooks',
    isOnSite: true,
    details: ['url', 'reason'],
  },
  'application-unreachable': {
    one: 'The application {what} does not accept logout tokens',
    many: 'Applications did not accept logout tokens on {count} days',
    page: '/admin/applications',
    isOnSite: true,
    ownPage: '/settings/applications',
    details: ['url', 'reason'],
  },
  'reservation-lapsing': {
    one: 'Reserved package names of {place} become free soon',
    many: 'Package names that {count} trusted publishers of {place} reserve become free soon',
    page: '/-/trusted-publishers',
    details: ['names', 'project', 'until'],
  },
  'affect-project': {
    one: 'A project of {place} installs a package with a problem',
    many: '{count} lock files of {place} contain a package with a problem',
    page: '/-/projects?affected=1',
    details: ['project', 'environment', 'reason'],
  },
  quarantine: {
    one: '{what} was quarantined in {place}',
    many: '{count} versions were quarantined in {place}',
    page: '',
    details: ['reason'],
  },
  advise: {
    one: 'A security advisory for {what} was published in {place}',
    many: '{count} security advisories were published in {place}',
    page: '',
    details: ['title', 'severity'],
  },
  'token-expiring': {
    one: 'A token of your account expires soon',
    many: '{count} tokens of your account expire soon',
    page: '/settings/tokens',
    isOnSite: true,
    details: ['name', 'expires_at'],
  },
  'deploy-token-expiring': {
    one: 'A deploy token of {place} expires soon',
    many: '{count} deploy tokens of {place} expire soon',
    page: '/-/deploy-tokens',
    details: ['name', 'expires_at'],
  },
  'create-deploy-token': {
    one: 'A deploy token of {place} was created',
    many: '{count} deploy tokens of {place} were created',
    page: '/-/deploy-tokens',
    details: ['name', 'right'],
    hasActor: true,
  },
  'add-publisher': {
    one: 'A trusted publisher of {place} was added',
    many: '{count} trusted publishers of {place} were added',
    page: '/-/trusted-publishers',
    details: ['project', 'issuer', 'right'],
    hasActor: true,
  },
}

/** The actions that mails can tell of. A test compares them with the view `notification_rule`. */
export const toldActions = Object.keys(words)

/** Returns what has happened so many times in one place, in a sentence without a full stop. */
export function headlineOf(event: Event, count: number): string {
  const { one, many } = wordsOf(event)
  const parts: Record<string, string> = {
    what: whatOf(event),
    place: event.repositoryPath ?? event.groupName ?? '',
    count: formatNumber(count),
  }
  return (count === 1 ? one : many).replace(/\{(\w+)\}/g, (_all, name: string) => parts[name] ?? '')
}

/** Describes one event in a line: `acme/lib 1.2.0, by alice`. */
export function describeNews(event: Event): string {
  const { details: told, hasActor } = wordsOf(event)
  const details = told.map((name) => textOf(name, event.details[name])).filter((text) => text !== '')
  const by = hasActor ? describeActor(event) || (event.tokenName ?? '') : ''
  const what = [whatOf(event), details.join(', ')].filter((text) => text !== '').join(': ')
  return by === '' ? what : `${what}, by ${by}`
}

/** Returns the URL of the page that shows one event, or all of this kind. */
export function urlOfNews(baseUrl: string, event: Event, count: number): string {
  const { page: anyPage, ownPage, isOnSite } = wordsOf(event)
  const page = event.username === null ? anyPage : (ownPage ?? anyPage)
  const { repositoryPath, groupName, packageName, details } = event
  const { stage, webhook } = details
  if (count === 1 && repositoryPath !== null && typeof stage === 'string' && event.action === 'stage')
    return reviewUrl(baseUrl, repositoryPath, { id: stage })
  const one = count === 1 && typeof webhook === 'number' ? `/${webhook}` : ''
  if (isOnSite) return `${baseUrl}${page}${one}`
  const ofPackage = count === 1 && page === '' && packageName !== null ? `/packages/${packageName}` : ''
  return `${baseUrl}/${repositoryPath ?? groupName}${ofPackage}${page}${one}`
}

function wordsOf({ action }: Pick<Event, 'action'>): Words {
  return words[action] as Words
}

function whatOf({ packageName, version, application }: Event): string {
  return [packageName ?? application, version].filter((part) => part !== null).join(' ')
}

function textOf(name: string, value: unknown): string {
  if (Array.isArray(value)) return value.join(' ')
  if (typeof value !== 'string') return ''
  if (name === 'expires_at') return `expires ${formatTime(new Date(value))}`
  return name === 'until' ? `until ${formatTime(new Date(value))}` : value
}

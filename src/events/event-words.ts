import { formatTime } from '../domain/formats.ts'
import { shortenText } from '../domain/plain-text.ts'
import { describeRun, type PublisherRun } from '../domain/publisher.ts'
import { identityWords, isIdentityAction, registryWords } from './actions.ts'
import type { Event } from './event.ts'

const words: Record<string, string> = { ...registryWords, ...identityWords }

/** Describes an action: `Signed in`, or `published`. An action of a newer release is shown by its name. */
export function describeAction(action: string): string {
  return words[action] ?? action.replaceAll('-', ' ')
}

/** Returns words with a capital first letter. */
export function capitalize(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** Names the subject of an event in a few words, such as a token's name. Empty when there is nothing to add. */
export function describeSubject({
  application,
  details: all,
}: Pick<Event, 'application' | 'details'>): string {
  const { changes, others: details } = splitChanges(all)
  const parts = [
    application,
    details['group'],
    details['role'],
    kindOf(details),
    details['project'],
    details['name'],
    expiryOf(details),
    proofOf(details) || details['provider'],
    rangeOf(details),
    attemptsOf(details),
    listOf(details['scopes']),
    ...changes,
    listOf(details['changed']),
    details['reason'],
    listOf(details['added'], 'added'),
    listOf(details['removed'], 'removed'),
  ]
  // Show a name once: the registered name is often still the current one.
  return [...new Set(parts)].filter((part) => typeof part === 'string' && part !== '').join(', ')
}

const factorKinds: Record<string, string> = {
  totp: 'authenticator app',
  'recovery-code': 'recovery code',
  passkey: 'passkey',
}

function kindOf({ kind, left }: Record<string, unknown>): string {
  if (typeof left === 'number') return `${left} left`
  return typeof kind === 'string' ? (factorKinds[kind] ?? kind) : ''
}

const methods: Record<string, string> = { invitation: 'invitation link' }

/** How a person signed in: `password and authenticator app`. Events of earlier releases have at most the provider. */
function proofOf({ method, provider, second_factor: factor }: Record<string, unknown>): string {
  if (typeof method !== 'string') return ''
  const first = method === 'provider' ? `provider ${nameOf(provider)}` : (methods[method] ?? method)
  return typeof factor === 'string' ? `${first} and ${factorKinds[factor] ?? factor}` : first
}

function rangeOf({ from, to }: Record<string, unknown>): string {
  if (from === undefined || to === undefined) return ''
  return `${nameOf(from)} → ${nameOf(to)}`
}

/** When something expires: `expires 31 Jan 2026, 10:05 UTC`. Empty for other events. */
function expiryOf({ expires_at: at }: Record<string, unknown>): string {
  return typeof at === 'string' ? `expires ${formatTime(new Date(at))}` : ''
}

/** The count of an event, such as a failed sign-in: `12 times until 31 Jan 2026, 10:05 UTC`. Empty for one attempt. */
function attemptsOf({ attempts, last_at: lastAt }: Record<string, unknown>): string {
  if (typeof attempts !== 'number' || typeof lastAt !== 'string') return ''
  return `${attempts} times until ${formatTime(new Date(lastAt))}`
}

function nameOf(value: unknown): string {
  if (typeof value === 'string') return value
  return typeof value === 'object' && value !== null ? consentOf(value as Record<string, unknown>) : 'none'
}

/** Describes the access that a consent gives: `registry-package:r for acme/php`. */
function consentOf({ scopes, resource_scope: reach, repositories, others }: Record<string, unknown>): string {
  const more = typeof others === 'number' && others > 0 ? ` and ${others} more` : ''
  const where = Array.isArray(repositories)
    ? `${repositories.join(' ')}${more}`
    : `${nameOf(reach)} repositories`
  return `${listOf(scopes)} for ${where}`
}

function listOf(value: unknown, label = ''): string {
  return Array.isArray(value) && value.length > 0 ? [label, ...value].join(' ').trim() : ''
}

const browsers: [RegExp, string][] = [
  [/Edg(?:e|A|iOS)?\//, 'Edge'],
  [/OPR\//, 'Opera'],
  [/SamsungBrowser\//, 'Samsung Internet'],
  [/(?:Firefox|FxiOS)\//, 'Firefox'],
  [/(?:Chrome|Chromium|CriOS)\//, 'Chrome'],
  [/Safari\//, 'Safari'],
  [/^curl\//, 'curl'],
  [/^Composer\//, 'Composer'],
]
const systems: [RegExp, string][] = [
  [/iPhone/, 'iPhone'],
  [/iPad/, 'iPad'],
  [/Android/, 'Android'],
  [/Windows/, 'Windows'],
  [/CrOS/, 'ChromeOS'],
  [/Mac OS X|Macintosh/, 'macOS'],
  [/Linux/, 'Linux'],
]

/** Describes a User-Agent header, such as `Firefox on Linux`. An unknown one is cut to 60 characters. */
export function describeBrowser(userAgent: string | null): string {
  if (userAgent === null) return 'Unknown browser'
  const browser = browsers.find(([pattern]) => pattern.test(userAgent))?.[1]
  const system = systems.find(([pattern]) => pattern.test(userAgent))?.[1]
  if (browser && system) return `${browser} on ${system}`
  return browser ?? Array.from(userAgent).slice(0, 60).join('')
}

/** Names who acted: a username, an application, or `command line`. Empty when nobody is known. */
export function describeActor({
  actor,
  via,
  application,
}: Pick<Event, 'actor' | 'via' | 'application'>): string {
  if (via === 'application') {
    const name = `the application ${application ?? 'that was deleted'}`
    return actor === null ? name : `${name} for ${actor}`
  }
  if (actor !== null) return actor
  return via === 'command' ? 'command line' : ''
}

/** An event in words, such as `changed a role in the group` and `ann: guest → developer`. */
export interface EventWords {
  /** What was done. It follows the name of the account, except for identity events. */
  said: string
  /** More about it, such as the old and the new value. It may be empty. */
  more: string
}

/** Puts an event into words. The names of its repository, package and version are not part of the words. */
export function putIntoWords(
  event: Pick<Event, 'action' | 'details'> & { application?: string | null },
): EventWords {
  const { action, details, application = null } = event
  const said = describeAction(action)
  if (isIdentityAction(action)) return { said, more: describeSubject({ application, details }) }
  if (typeof details['username'] === 'string') return wordsOfRole(said, details)
  return { said, more: describeMore(details) }
}

function wordsOfRole(said: string, details: Details): EventWords {
  const { username = '', role, provider } = textsOf(details)
  const { from, by_invitation: isInvited } = details
  const { role: former } = isRecord(from) ? textsOf(from) : {}
  const change = former !== undefined ? `: ${former} → ${role ?? 'no role'}` : role ? ` is ${role}` : ''
  const more = `${username}${change}${provider ? `, from the groups of ${provider}` : ''}`
  if (isInvited === true) return { said: 'joined the group by invitation', more }
  return { said: former !== undefined && role ? said.replace('gave', 'changed') : said, more }
}

/** The details that are shown, in this order. `path` and `name` of a repository or group are shown as its name. */
function describeMore(details: Details): string {
  const { changes, others } = splitChanges(details)
  const { name, right, upstream, vendor, replacement, from, to, title, reason, alarm, visibility } =
    textsOf(others)
  const { count, attestations } = others
  return [
    name && right ? `${name} (${right})` : name,
    expiryOf(others),
    publisherOf(others),
    projectOf(others),
    upstream,
    vendor,
    from && to && `${from} → ${to}`,
    ...changes,
    visibility,
    typeof count === 'number' && `${count} ${count === 1 ? 'version' : 'versions'}`,
    typeof attestations === 'number' &&
      `${attestations} ${attestations === 1 ? 'attestation' : 'attestations'}`,
    replacement && `use ${replacement}`,
    title,
    reason,
    alarm && `the alarm was: ${alarm}`,
    isRecord(others['run']) && describeRun(others['run'] as unknown as PublisherRun),
  ]
    .filter((part) => typeof part === 'string' && part !== '')
    .join(', ')
}

/** A trusted publisher: `GitHub Actions: acme/lib, release.yml (publish)`. Empty for other events. */
function publisherOf({ publisher, ...details }: Details): string {
  const { provider, issuer = null, project = issuer, workflow = null, right } = textsOf(details)
  if (publisher === undefined || !provider || !right) return ''
  return `${describeRun({ provider, project, workflow, ref: null, commit: null, url: null })} (${right})`
}

/** A project of the group, and where it runs: `shop in production`. Empty for the project of a trusted publisher. */
function projectOf({ publisher, ...details }: Details): string {
  const { project, environment } = textsOf(details)
  if (publisher !== undefined || !project) return ''
  return environment ? `${project} in ${environment}` : project
}

/** Returns the details that are texts. */
function textsOf(details: Details): Partial<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(details).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
}

type Details = Record<string, unknown>

function isRecord(value: unknown): value is Details {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Takes the changed settings out of the details of an event (see `detailsOfChange`): `visibility: private → public`. The
 * event of an application names under `changed` also those whose values it does not have.
 */
function splitChanges(details: Details): { changes: string[]; others: Details } {
  const { from, ...others } = details
  if (!isRecord(from) || 'to' in details) return { changes: [], others: details }
  const changes = Object.entries(from).map(
    ([name, former]) => `${settingName(name)}: ${settingValue(former)} → ${settingValue(others[name])}`,
  )
  const kept = Object.entries(others).filter(([name]) => !(name in from))
  const { changed } = others
  const rest = Array.isArray(changed) && { changed: changed.filter((name) => !(name in from)) }
  return { changes, others: { ...Object.fromEntries(kept), ...rest } }
}

/** Returns the name of a setting in words: `minimum age hours`. */
function settingName(name: string): string {
  return name.replaceAll('_', ' ').replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
}

/** The longest value of a setting that is shown completely. */
const maxValueCharacters = 80

function settingValue(value: unknown): string {
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value === 'number') return String(value)
  const shown = typeof value === 'string' ? value : listOf(value)
  return shown === '' ? 'none' : shortenText(shown, maxValueCharacters)
}

import { formatTime } from '../domain/formats.ts'
import { identityWords, registryWords } from './actions.ts'
import type { IdentityEvent } from './identity-events.ts'
import type { RegistryEvent } from './registry-events.ts'

/** Describes an action: `Signed in`. An action of a newer release is shown by its name. */
export function describeAction(action: string): string {
  return (identityWords as Record<string, string>)[action] ?? action
}

/** Names the subject of an event in a few words, such as a token's name. Empty when there is nothing to add. */
export function describeSubject({ application, details }: IdentityEvent): string {
  const parts = [
    application,
    details['group'],
    kindOf(details),
    details['name'],
    proofOf(details) || details['provider'],
    rangeOf(details),
    attemptsOf(details),
    listOf(details['scopes']),
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
export function describeActor({ actor, via, application }: IdentityEvent): string {
  if (via === 'application') {
    const name = `the application ${application ?? 'that was deleted'}`
    return actor === null ? name : `${name} for ${actor}`
  }
  if (actor !== null) return actor
  return via === 'command' ? 'command line' : ''
}

/** Describes an event, such as `published` or `gave a role in the group: ann is admin`. */
export function describeRegistryEvent({
  action,
  details,
}: Pick<RegistryEvent, 'action' | 'details'>): string {
  const said = (registryWords as Record<string, string>)[action] ?? action.replaceAll('-', ' ')
  const { username, role, reason, from, to, title, name, upstream, vendor, alarm } = details as Partial<
    Record<string, string>
  >
  if (username) return `${said}: ${username}${role ? ` is ${role}` : ''}`
  if (name && action.endsWith('deploy-token')) return `${said}: ${name}`
  if (upstream && action.endsWith('-upstream')) return `${said} ${upstream}`
  if (vendor) return `${said} ${vendor}`
  if (from && to) return `${said}: ${from} is now ${to}`
  if (reason) return `${said} (${reason})`
  if (alarm) return `${said} (the alarm was: ${alarm})`
  return title ? `${said} (${title})` : said
}

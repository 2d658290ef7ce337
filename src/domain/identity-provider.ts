import { isPlainText } from './plain-text.ts'

/** Gives the members of a group at the provider a role on one of our groups. */
export interface GroupMapping {
  /** The name of the group at the provider. */
  providerGroup: string
  /** The name of our group. */
  group: string
  role: 'guest' | 'developer' | 'admin'
}

/** The operator's settings of an OpenID Connect provider. */
export interface ProviderSettings {
  /** Lower-case name in URLs, such as `acme`. */
  name: string
  /** The name on buttons and pages. */
  label: string
  /** The issuer URL, exactly as in the provider's metadata. */
  issuer: string
  clientId: string
  clientSecret: string
  /** The requested scopes, separated by spaces. `openid` is one of them. */
  scopes: string
  /** Lower-case domains of verified email addresses. If empty, everybody at the provider may sign in. */
  allowedDomains: string[]
  /** The claim with the groups. */
  groupsClaim: string
  /** If empty, the provider does not manage group memberships. */
  groupMap: GroupMapping[]
}

const parts = [
  'ISSUER',
  'CLIENT_ID',
  'CLIENT_SECRET',
  'SCOPES',
  'ALLOWED_DOMAINS',
  'GROUPS_CLAIM',
  'GROUP_MAP',
  'LABEL',
] as const
type Part = (typeof parts)[number]

const variable = new RegExp(`^OIDC_([A-Z][A-Z0-9_]*?)_(${parts.join('|')})$`)
const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/
const domain = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$/
const groupName = /^(?=.{1,64}$)[a-z0-9](?:[._-]?[a-z0-9])*$/
const roles: Record<string, GroupMapping['role']> = {
  read: 'guest',
  write: 'developer',
  guest: 'guest',
  developer: 'developer',
  admin: 'admin',
}

/**
 * Reads the providers from the variables `OIDC_<NAME>_…`, ordered by name. `mistakes` has one line for each mistake.
 * Each line begins with the name of the variable.
 */
export function readProviders(environment: Readonly<Record<string, string | undefined>>): {
  providers: ProviderSettings[]
  mistakes: string[]
} {
  const found = new Map<string, Partial<Record<Part, string>>>()
  for (const [key, value] of Object.entries(environment)) {
    const [, name, part] = variable.exec(key) ?? []
    if (name === undefined || value === undefined || value === '') continue
    found.set(name, { ...found.get(name), [part as Part]: value })
  }
  const mistakes = misspelledIn(environment, [...found.keys()])
  const providers = [...found]
    .map(([name, given]) => readProvider(name, given, mistakes))
    .sort((one, other) => (one.name < other.name ? -1 : 1))
  const issuers = new Map<string, string>()
  for (const { name, issuer } of providers) {
    const other = issuers.get(issuer)
    if (other !== undefined && issuer !== '') {
      mistakes.push(
        `OIDC_${variableName(name)}_ISSUER is also the issuer of the provider ${other}: each provider needs its own`,
      )
    }
    issuers.set(issuer, name)
  }
  return { providers, mistakes }
}

/** Returns whether a URL uses https, or http on localhost. */
export function isSecureUrl(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || (protocol === 'http:' && loopback.test(hostname))
}

/** Returns a mistake for each unknown variable with the prefix of a configured provider. */
function misspelledIn(environment: Readonly<Record<string, string | undefined>>, names: string[]): string[] {
  return Object.keys(environment)
    .filter((key) => !variable.test(key) && names.some((name) => key.startsWith(`OIDC_${name}_`)))
    .map((key) => `${key} is not a provider setting: use one of ${parts.join(', ')}`)
}

function readProvider(
  variableOf: string,
  given: Partial<Record<Part, string>>,
  mistakes: string[],
): ProviderSettings {
  const tell = (part: Part, mistake: string) => mistakes.push(`OIDC_${variableOf}_${part} ${mistake}`)
  const name = variableOf.toLowerCase().replaceAll('_', '-')
  if (!/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) || name.length > 30) {
    tell('ISSUER', 'has an invalid <NAME>: use at most 30 letters and digits, with single _ between them')
  }
  for (const part of ['ISSUER', 'CLIENT_ID', 'CLIENT_SECRET'] as const) {
    if (given[part] === undefined) tell(part, 'is missing')
    else if (given[part].length > 1000 || !isPlainText(given[part])) {
      tell(part, 'must be one line of at most 1000 characters')
    }
  }
  const issuer = given.ISSUER ?? ''
  const problem = given.ISSUER === undefined ? null : problemOfIssuer(issuer)
  if (problem !== null) tell('ISSUER', problem)
  const scopes = listed(given.SCOPES ?? 'openid profile email', /[\s,]+/)
  if (!scopes.includes('openid')) tell('SCOPES', 'must contain openid')
  if (scopes.some((scope) => !/^[!#-[\]-~]{1,200}$/.test(scope)))
    tell('SCOPES', 'must be scopes separated by spaces')
  const allowedDomains = listed(given.ALLOWED_DOMAINS ?? '', /[\s,]+/).map((one) => one.toLowerCase())
  if (given.ALLOWED_DOMAINS !== undefined && !(allowedDomains.length > 0 && allowedDomains.every(isDomain))) {
    tell('ALLOWED_DOMAINS', 'must be domains such as example.com, separated by commas')
  }
  const groupMap = readGroupMap(given.GROUP_MAP ?? '')
  if (typeof groupMap === 'string') tell('GROUP_MAP', groupMap)
  const label = given.LABEL ?? labelOf(name)
  if (label.length > 60 || !isPlainText(label)) tell('LABEL', 'must be one line of at most 60 characters')
  return {
    name,
    label,
    issuer,
    clientId: given.CLIENT_ID ?? '',
    clientSecret: given.CLIENT_SECRET ?? '',
    scopes: scopes.join(' '),
    allowedDomains,
    groupsClaim: given.GROUPS_CLAIM ?? 'groups',
    groupMap: typeof groupMap === 'string' ? [] : groupMap,
  }
}

function problemOfIssuer(issuer: string): string | null {
  if (!URL.canParse(issuer) || !/^https?:\/\//.test(issuer)) {
    return 'must be a URL such as https://id.example.com'
  }
  if (!isSecureUrl(issuer)) return 'must use https; http is for localhost, 127.0.0.1 and [::1] only'
  if (/[?#]|\/\/[^/]*@/.test(issuer)) return 'must have no credentials, query or fragment'
  if (issuer.includes('/.well-known/')) return 'must be the issuer itself, without /.well-known/…'
  return null
}

/** Reads `developers=acme:write,admins=acme:admin`. Returns a mistake as text. */
function readGroupMap(text: string): GroupMapping[] | string {
  const map: GroupMapping[] = []
  for (const entry of listed(text, /,/)) {
    const [, encoded = '', group = '', word = ''] = /^(.+)=([^=:]+):([a-z]+)$/.exec(entry) ?? []
    const providerGroup = decode(encoded.trim())
    const role = Object.hasOwn(roles, word) ? roles[word] : undefined
    if (!providerGroup || !groupName.test(group) || role === undefined) {
      return `has an invalid entry ${entry}: use <group at the provider>=<our group>:<read, write or admin>`
    }
    map.push({ providerGroup, group, role })
  }
  return map
}

/** Decodes percent-encoding: a comma in the name of a group is written as %2C. Returns null for broken encoding. */
function decode(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

function listed(text: string, separator: RegExp): string[] {
  return text
    .split(separator)
    .map((one) => one.trim())
    .filter((one) => one !== '')
}

function isDomain(text: string): boolean {
  return domain.test(text)
}

function labelOf(name: string): string {
  return name
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join(' ')
}

function variableName(name: string): string {
  return name.toUpperCase().replaceAll('-', '_')
}

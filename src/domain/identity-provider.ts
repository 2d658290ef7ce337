import * as z from 'zod'
import { nameShape } from './names.ts'
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

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])$/
const domain = /^(?=.{1,253}$)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$/
const roles: Record<string, GroupMapping['role']> = {
  read: 'guest',
  write: 'developer',
  guest: 'guest',
  developer: 'developer',
  admin: 'admin',
}

/** Returns a schema for one line of text. */
const lineSetting = (most: number) => {
  const isLine = (text: string) => text.length <= most && isPlainText(text)
  const error = `must be one line of at most ${most} characters`
  return z.string({ error: 'is missing' }).refine(isLine, { error, abort: true })
}

const issuerSetting = lineSetting(1000)
  .refine((issuer) => URL.canParse(issuer) && /^https?:\/\//.test(issuer), {
    error: 'must be a URL such as https://id.example.com',
    abort: true,
  })
  .refine(isSecureUrl, {
    error: 'must use https; http is for localhost, 127.0.0.1 and [::1] only',
    abort: true,
  })
  .refine((issuer) => !/[?#]|\/\/[^/]*@/.test(issuer), {
    error: 'must have no credentials, query or fragment',
    abort: true,
  })
  .refine((issuer) => !issuer.includes('/.well-known/'), 'must be the issuer itself, without /.well-known/…')

/** The variables of a provider, each after `OIDC_<NAME>_`. */
const Settings = z.object({
  ISSUER: issuerSetting,
  CLIENT_ID: lineSetting(1000),
  CLIENT_SECRET: lineSetting(1000),
  SCOPES: z
    .string()
    .default('openid profile email')
    .transform((text) => listed(text, /[\s,]+/))
    .refine((scopes) => scopes.includes('openid'), 'must contain openid')
    .refine(
      (scopes) => scopes.every((scope) => /^[!#-[\]-~]{1,200}$/.test(scope)),
      'must be scopes separated by spaces',
    ),
  ALLOWED_DOMAINS: z
    .string()
    .transform((text) => listed(text.toLowerCase(), /[\s,]+/))
    .refine(
      (domains) => domains.length > 0 && domains.every((one) => domain.test(one)),
      'must be domains such as example.com, separated by commas',
    )
    .default([]),
  GROUPS_CLAIM: lineSetting(1000).default('groups'),
  GROUP_MAP: z.string().default('').transform(readGroupMap),
  LABEL: lineSetting(60).optional(),
})
type Part = keyof typeof Settings.shape

const parts = Object.keys(Settings.shape)
const variable = new RegExp(`^OIDC_([A-Z][A-Z0-9_]*?)_(${parts.join('|')})$`)

/**
 * Reads the providers from the variables `OIDC_<NAME>_…`, ordered by name. `mistakes` has one line for each mistake.
 * Each line begins with the name of the variable. A provider with a mistake is left out.
 */
export function readProviders(environment: Readonly<Record<string, string | undefined>>): {
  providers: ProviderSettings[]
  mistakes: string[]
} {
  const found = new Map<string, Partial<Record<Part, string>>>()
  for (const [key, value] of Object.entries(environment)) {
    const [, prefix, part] = variable.exec(key) ?? []
    if (prefix === undefined || value === undefined || value === '') continue
    found.set(prefix, { ...found.get(prefix), [part as Part]: value })
  }
  const given = [...found].toSorted(([one], [other]) => (nameOf(one) < nameOf(other) ? -1 : 1))
  const read = [...found].map(([prefix, settings]) => readProvider(prefix, settings))
  return {
    providers: read
      .flatMap(({ provider }) => provider ?? [])
      .toSorted((one, other) => (one.name < other.name ? -1 : 1)),
    mistakes: [
      ...misspelledIn(environment, [...found.keys()]),
      ...read.flatMap(({ mistakes }) => mistakes),
      ...sharedIssuersOf(given),
    ],
  }
}

/** Returns whether a URL uses https, or http on localhost. */
export function isSecureUrl(url: string): boolean {
  if (!URL.canParse(url)) return false
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || (protocol === 'http:' && loopback.test(hostname))
}

/** Returns a mistake for each unknown variable with the prefix of a configured provider. */
function misspelledIn(
  environment: Readonly<Record<string, string | undefined>>,
  prefixes: string[],
): string[] {
  return Object.keys(environment)
    .filter((key) => !variable.test(key) && prefixes.some((prefix) => key.startsWith(`OIDC_${prefix}_`)))
    .map((key) => `${key} is not a provider setting: use one of ${parts.join(', ')}`)
}

/** Returns a message for each provider that has the same issuer as an earlier one. */
function sharedIssuersOf(given: readonly [prefix: string, settings: { ISSUER?: string }][]): string[] {
  return given.flatMap(([prefix, { ISSUER: issuer }], at) => {
    const other = given
      .slice(0, at)
      .findLast(([, earlier]) => issuer !== undefined && earlier.ISSUER === issuer)
    if (!other) return []
    return `OIDC_${prefix}_ISSUER is also the issuer of the provider ${nameOf(other[0])}: each provider needs its own`
  })
}

function readProvider(
  prefix: string,
  given: Partial<Record<Part, string>>,
): { provider: ProviderSettings | null; mistakes: string[] } {
  const name = nameOf(prefix)
  const read = Settings.safeParse(given)
  const mistakes = read.error?.issues.map(({ path, message }) => `${path.join('.')} ${message}`) ?? []
  if (!/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/.test(name) || name.length > 30) {
    mistakes.unshift(
      'ISSUER has an invalid <NAME>: use at most 30 letters and digits, with single _ between them',
    )
  }
  if (!read.success || mistakes.length > 0) {
    return { provider: null, mistakes: mistakes.map((mistake) => `OIDC_${prefix}_${mistake}`) }
  }
  const settings = read.data
  const provider = {
    name,
    label: settings.LABEL ?? labelOf(name),
    issuer: settings.ISSUER,
    clientId: settings.CLIENT_ID,
    clientSecret: settings.CLIENT_SECRET,
    scopes: settings.SCOPES.join(' '),
    allowedDomains: settings.ALLOWED_DOMAINS,
    groupsClaim: settings.GROUPS_CLAIM,
    groupMap: settings.GROUP_MAP,
  }
  return { provider, mistakes }
}

/** Reads `developers=acme:write,admins=acme:admin`. An invalid entry is a mistake of the setting. */
function readGroupMap(text: string, context: z.RefinementCtx): GroupMapping[] {
  return listed(text, /,/).flatMap((entry) => {
    const [, encoded = '', group = '', word = ''] = /^(.+)=([^=:]+):([a-z]+)$/.exec(entry) ?? []
    const providerGroup = decode(encoded.trim())
    const role = Object.hasOwn(roles, word) ? roles[word] : undefined
    if (providerGroup && group.length <= 64 && nameShape.test(group) && role !== undefined)
      return { providerGroup, group, role }
    context.addIssue({
      code: 'custom',
      message: `has an invalid entry ${entry}: use <group at the provider>=<our group>:<read, write or admin>`,
    })
    return []
  })
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

/** Returns the name in URLs of the provider whose variables have this prefix. */
function nameOf(prefix: string): string {
  return prefix.toLowerCase().replaceAll('_', '-')
}

function labelOf(name: string): string {
  return name
    .split('-')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join(' ')
}

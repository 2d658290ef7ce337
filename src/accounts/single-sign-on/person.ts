import { isEmail } from '../../domain/email.ts'
import type { ProviderSettings } from '../../domain/identity-provider.ts'
import { cleanLine } from '../../domain/plain-text.ts'

/** A person whose identity a provider has proven. Stored as JSON while the person chooses an account. */
export interface ProvenPerson {
  issuer: string
  subject: string
  /** The id of the person in the directory of Entra ID, whose subjects are others for each application. */
  objectId: string | null
  /** Null when there is none, or it is not well-formed. */
  email: string | null
  /** Whether the provider states that it has verified `email`. */
  isEmailVerified: boolean
  displayName: string
  /** Well-formed, at most 39 characters. Another account may already have it. */
  username: string
  /** The person's groups at the provider that the configuration maps. Null when they are unknown: see `readGroups`. */
  groups: string[] | null
  /**
   * Whether the provider says that the person signed in there for this request, and not some time before. Only then the
   * sign-in is a recent proof, which sensitive actions need.
   */
  hasJustSignedIn: boolean
}

type Claims = Readonly<Record<string, unknown>>

/**
 * Reads a person from the claims of the ID token and of UserInfo. The ID token takes precedence. An email and its
 * verification always come from the same source. The verification applies to this email only.
 */
export function readPerson(
  { groupsClaim, groupMap }: Pick<ProviderSettings, 'groupsClaim' | 'groupMap'>,
  { issuer, subject }: { issuer: string; subject: string },
  idToken: Claims,
  userInfo: Claims,
): Omit<ProvenPerson, 'hasJustSignedIn'> {
  const claims = { ...userInfo, ...idToken }
  const { email, isEmailVerified } = readEmail([idToken, userInfo])
  const mapped = new Set(groupMap.map(({ providerGroup }) => providerGroup))
  return {
    issuer,
    subject,
    objectId: readText(claims['oid']) || null,
    email,
    isEmailVerified,
    displayName: Array.from(readText(claims['name'])).slice(0, 100).join(''),
    username: usernameOf([claims['preferred_username'], email, claims['nickname'], claims['name']]),
    groups: readGroups(claims, groupsClaim)?.filter((group) => mapped.has(group)) ?? null,
  }
}

/** Returns whether the person has a verified email in one of the allowed domains. */
export function isInAllowedDomain(
  { allowedDomains }: Pick<ProviderSettings, 'allowedDomains'>,
  { email, isEmailVerified }: Pick<ProvenPerson, 'email' | 'isEmailVerified'>,
): boolean {
  if (allowedDomains.length === 0) return true
  const domain = email?.slice(email.lastIndexOf('@') + 1).toLowerCase()
  return isEmailVerified && domain !== undefined && allowedDomains.includes(domain)
}

function readEmail(sources: Claims[]): Pick<ProvenPerson, 'email' | 'isEmailVerified'> {
  const emails = sources.map((claims) => {
    const email = readText(claims['email'])
    // Some providers send the boolean as text.
    const isEmailVerified = [true, 'true'].includes(claims['email_verified'] as boolean | string)
    return { email: isEmail(email) ? email : null, isEmailVerified }
  })
  const given = emails.filter(({ email }) => email !== null)
  return (
    given.find(({ isEmailVerified }) => isEmailVerified) ??
    given[0] ?? { email: null, isEmailVerified: false }
  )
}

/** Returns a well-formed username from the first text that has letters or digits. Without any, returns `user`. */
export function usernameOf(candidates: unknown[]): string {
  for (const candidate of candidates) {
    const username = wellFormed(readText(candidate).replace(/(?<=.)@.*$/s, ''))
    if (username !== '') return username
  }
  return 'user'
}

/** Keeps the characters that a username may have: letters and digits, with single `.`, `_` or `-` between them. */
function wellFormed(text: string): string {
  return text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replaceAll('ß', 'ss')
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/[._-]*([._-])/g, '$1')
    .slice(0, 39)
    .replace(/^[._-]+|[._-]+$/g, '')
}

/** Appends a number to a username, within 39 characters: `ann-2`. */
export function numberedUsername(username: string, number: number | string): string {
  const suffix = `-${number}`
  return `${username.slice(0, 39 - suffix.length).replace(/[._-]+$/, '')}${suffix}`
}

/** Reads the groups by the claim's name, or by a path such as `realm_access.roles`. */
function readGroups(claims: Claims, claim: string): string[] | null {
  const value = Object.hasOwn(claims, claim) ? claims[claim] : valueAt(claims, claim.split('.'))
  if (Array.isArray(value)) return value.filter((group) => typeof group === 'string')
  if (typeof value === 'string') return [value]
  // Entra ID omits the claim for people with many groups, and refers to it in other claims (OpenID Connect Core
  // §5.6.2).
  const elsewhere = claims['_claim_names']
  if (typeof elsewhere === 'object' && elsewhere !== null && Object.hasOwn(elsewhere, claim)) return null
  return []
}

function valueAt(claims: unknown, path: string[]): unknown {
  let value: unknown = claims
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Claims)[name]
  }
  return value
}

function readText(value: unknown): string {
  return typeof value === 'string' ? cleanLine(value.slice(0, 1000)) : ''
}

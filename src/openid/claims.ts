import type { ProofMethod } from '../accounts/sessions.ts'
import { covers } from '../domain/scopes.ts'

/** What the claims about an account need. */
export interface DescribedAccount {
  username: string
  displayName: string
  email: string | null
  isEmailVerified: boolean
}

/** The claims that each scope gives (OpenID Connect Core §5.4). */
const claimsOf = {
  profile: ['name', 'preferred_username'],
  email: ['email', 'email_verified'],
} as const

type ClaimScope = keyof typeof claimsOf
const claimScopes = Object.keys(claimsOf) as ClaimScope[]

/** All claims that svc knows about an account, besides `sub`. */
export const accountClaims: readonly string[] = Object.values(claimsOf).flat()

/** The classes of authentication, the weakest first (OPENID 251). */
export const authenticationClasses = ['1', '2', 'phr'] as const

/** Returns the scope that gives a claim. Null for a claim that svc does not know. */
export function scopeOfClaim(claim: string): ClaimScope | null {
  return claimScopes.find((scope) => (claimsOf[scope] as readonly string[]).includes(claim)) ?? null
}

/**
 * Returns the claims about an account that the granted scopes allow. `account-profile:r` and `account-email:r` show the same
 * in the API, but are no consent to put it in a token for signing in.
 */
export function describeAccountClaims(
  { username, displayName, email, isEmailVerified }: DescribedAccount,
  scopes: readonly string[],
): Record<string, unknown> {
  return {
    ...(covers(scopes, 'profile') && {
      name: displayName || username,
      preferred_username: username,
    }),
    ...(covers(scopes, 'email') && email !== null && { email, email_verified: isEmailVerified }),
  }
}

/** Returns the class of an authentication with these methods (OPENID 251). */
export function classOf(methods: readonly ProofMethod[]): (typeof authenticationClasses)[number] {
  if (methods.includes('passkey') || methods.includes('security-key')) return 'phr'
  return methods.includes('totp') ? '2' : '1'
}

/**
 * The values of RFC 8176. It has none for a mailed link, and none for a provider: `fed` is what others use. A recovery code
 * replaces a lost app.
 */
const references: Record<ProofMethod, string | null> = {
  password: 'pwd',
  invitation: 'pwd',
  provider: 'fed',
  totp: 'otp',
  passkey: 'pop',
  'security-key': 'pop',
  'recovery-code': null,
  mail: null,
}

/** Returns the claim `amr` of an authentication with these methods. A passkey alone is two factors if its device verified the person. */
export function describeMethods(methods: readonly ProofMethod[]): string[] {
  const named = methods.map((method) => references[method]).filter((value) => value !== null)
  const isMultiple = methods.includes('passkey') || (classOf(methods) !== '1' && methods.length > 1)
  return [...new Set([...named, ...(isMultiple ? ['mfa'] : [])])]
}

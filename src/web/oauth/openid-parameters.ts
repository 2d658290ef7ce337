import * as z from 'zod'
import { isOpenidScope } from '../../domain/scopes.ts'
import { scopeOfClaim } from '../../openid/claims.ts'
import type { OpenidRequest } from '../../openid/sign-ins.ts'

/** The parameters of OpenID Connect in an authorization request (OPENID 245–252). */
export interface OpenidParameters extends OpenidRequest {
  /** How old the last proof of identity may be. Null for any age. Zero for `prompt=login`: it must come after the request. */
  maxAgeSeconds: number | null
  /** The name to fill in at the sign-in. */
  loginHint: string | null
  idTokenHint: string | null
  /** The only account for which the request may succeed, by the parameter `claims`. */
  subject: string | null
  /** The scopes that give the claims that the parameter `claims` names. */
  claimScopes: readonly string[]
}

/** The errors of OpenID Connect Core §3.1.2.6 for what svc does not support. */
export type UnsupportedParameter =
  | 'registration_not_supported'
  | 'request_not_supported'
  | 'request_uri_not_supported'

/** Reads the value of a parameter; null when it is missing. Throws when it is repeated. */
type Read = (name: string) => string | null

const maxNonceCharacters = 1024

const AskedClaims = z.object({
  id_token: z.record(z.string(), z.unknown()).nullish(),
  userinfo: z.record(z.string(), z.unknown()).nullish(),
})
const AskedSubject = z.object({ value: z.string() })

/** Reads the parameters. `refuse` makes the error for a value that is wrong. */
export function readOpenidParameters(
  read: Read,
  refuse: (code: 'invalid_request' | UnsupportedParameter, reason: string) => Error,
): OpenidParameters {
  for (const name of ['request', 'request_uri', 'registration'] as const) {
    if (read(name) !== null) throw refuse(`${name}_not_supported`, `The parameter ${name} is not supported.`)
  }
  const invalid = (reason: string) => refuse('invalid_request', reason)
  const nonce = read('nonce')
  if (nonce !== null && Array.from(nonce).length > maxNonceCharacters)
    throw invalid(`nonce has more than ${maxNonceCharacters} characters.`)
  const asked = readClaims(read('claims'), invalid)
  const names = Object.keys(asked.id_token ?? {})
  const subject = AskedSubject.safeParse(asked.id_token?.['sub'])
  const scopes = [...names, ...Object.keys(asked.userinfo ?? {})].map(scopeOfClaim)
  return {
    nonce,
    idTokenClaims: names.filter((name) => scopeOfClaim(name) !== null),
    claimScopes: [...new Set(scopes)].filter((scope) => scope !== null),
    subject: subject.success ? subject.data.value : null,
    maxAgeSeconds: readMaxAge(read, invalid),
    loginHint: read('login_hint'),
    idTokenHint: read('id_token_hint'),
  }
}

/** Returns the scopes of a request, with those that the parameter `claims` needs and the application is registered with. */
export function withClaimScopes(
  scopes: readonly string[],
  { claimScopes }: OpenidParameters,
  registered: readonly string[],
): string[] {
  if (!scopes.includes('openid')) return [...scopes]
  return [...new Set([...scopes, ...claimScopes.filter((scope) => registered.includes(scope))])]
}

/** Returns the scopes of a request that names none: all registered ones, without those of OpenID Connect (OPENID 244). */
export function defaultScopes(registered: readonly string[]): string[] {
  return registered.filter((scope) => !isOpenidScope(scope))
}

function readClaims(text: string | null, invalid: (reason: string) => Error): z.output<typeof AskedClaims> {
  if (text === null) return {}
  try {
    return AskedClaims.parse(JSON.parse(text))
  } catch {
    throw invalid('claims must be a JSON object with the members id_token and userinfo.')
  }
}

function readMaxAge(read: Read, invalid: (reason: string) => Error): number | null {
  const text = read('max_age')
  if (text !== null && !/^\d{1,9}$/.test(text)) throw invalid('max_age must be a number of seconds.')
  if ((read('prompt') ?? '').split(' ').includes('login')) return 0
  return text === null ? null : Number(text)
}

import { createHash } from 'node:crypto'
import { type CryptoKey, compactVerify } from 'jose'
import { ExchangeRefusal } from './exchange-refusal.ts'
import type { ClaimDifference, Claims } from './providers.ts'

const maxCharacters = 8 * 1024
const leewaySeconds = 60
const maxLifeSeconds = 24 * 3600

/** The algorithms of signatures that are accepted. Each needs a key pair: no shared secret can sign. */
const signatureAlgorithms = ['RS256', 'ES256', 'EdDSA'] as const
export type SignatureAlgorithm = (typeof signatureAlgorithms)[number]

/** An identity token of a CI job, a JWT (RFC 7519). Nothing of it is true before its signature has been checked. */
export interface IdentityToken {
  text: string
  header: Readonly<Record<string, unknown>>
  claims: Claims
  /** The claim `iss`. Empty when it is missing. */
  issuer: string
}

/** In JSON: the characters that PostgreSQL cannot store, U+0000 and lone surrogates. */
const unstorable = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

/** Reads an identity token without checking it. Throws `invalid_request` when it is too long, or no JWT. */
export function readIdentityToken(text: string): IdentityToken {
  if (text.length > maxCharacters) throw notAToken(`it is longer than ${maxCharacters} bytes`)
  const parts = text.split('.')
  if (parts.length !== 3 || !parts.every((part) => /^[\w-]*$/.test(part))) throw notAToken('it is no JWT')
  const [header, claims] = parts.map(readPart)
  if (!header || !claims) throw notAToken('it is no JWT')
  if (unstorable.test(JSON.stringify(claims))) throw notAToken('its claims have invalid characters')
  return { text, header, claims, issuer: typeof claims['iss'] === 'string' ? claims['iss'] : '' }
}

function notAToken(reason: string): ExchangeRefusal {
  return new ExchangeRefusal('invalid_request', `The subject_token cannot be read: ${reason}.`)
}

function readPart(part: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null
  } catch {
    return null
  }
}

/** Returns the id of the key that has signed a token. Throws `invalid_grant` when the token does not name one. */
export function keyIdOf({ header: { kid } }: IdentityToken): string {
  if (typeof kid === 'string' && kid !== '') return kid
  throw new ExchangeRefusal('invalid_grant', 'The token names no key: its header has no kid.')
}

/** Returns the algorithm of a token's signature. Throws `invalid_grant` for one that is not accepted. */
export function algorithmOf({ header: { alg, crit } }: IdentityToken): SignatureAlgorithm {
  const known = signatureAlgorithms.find((one) => one === alg)
  // An extension could change what the signature means (RFC 7515 §4.1.11).
  if (known && crit === undefined) return known
  throw new ExchangeRefusal(
    'invalid_grant',
    `The signature of the token is not accepted: it must be ${signatureAlgorithms.join(', ')}, without critical extensions.`,
  )
}

/** Checks the signature of a token. Throws `invalid_grant`. The threads of libuv do the work. */
export async function checkSignature({ text }: IdentityToken, key: CryptoKey): Promise<void> {
  try {
    await compactVerify(text, key, { algorithms: [...signatureAlgorithms] })
  } catch {
    // A key that is too short, or of another algorithm, throws too.
    throw new ExchangeRefusal('invalid_grant', 'The signature of the token is wrong.')
  }
}

/** The result of the checks of a token's audience and times. */
export interface Validity {
  /** When it expires, in seconds since 1970. */
  expires: number
  /** The claims that are wrong. Empty when the token is valid here and now. */
  differs: ClaimDifference[]
}

/** Checks the audience and the times of a token, with a leeway of a minute for the clocks. */
export function checkValidity(
  { claims }: Pick<IdentityToken, 'claims'>,
  audience: string,
  now: number = Date.now() / 1000,
): Validity {
  const differs: ClaimDifference[] = []
  const { aud } = claims
  const given = Array.isArray(aud) && aud.length === 1 ? (aud[0] as unknown) : aud
  if (given !== audience) differs.push({ claim: 'aud', expected: audience, given: textOf(aud) })
  const requireTime = (claim: string, expected: string, isRight: (seconds: number) => boolean): number => {
    const seconds = timeOf(claims[claim])
    const isFine = seconds === null ? claim !== 'exp' : isRight(seconds)
    if (!isFine) differs.push({ claim, expected, given: textOf(claims[claim]) })
    return seconds ?? now
  }
  const expires = requireTime('exp', 'a time in the future', (seconds) => seconds + leewaySeconds > now)
  const [notBefore, issued] = ['nbf', 'iat'].map((claim) =>
    requireTime(claim, 'a time in the past', (seconds) => seconds - leewaySeconds <= now),
  )
  const begins = claims['iat'] === undefined ? notBefore : issued
  if (expires - (begins ?? now) > maxLifeSeconds)
    differs.push({ claim: 'exp', expected: 'at most 24 hours after iat', given: textOf(claims['exp']) })
  return { expires, differs }
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? null)
}

/** Returns a time in seconds since 1970, also if it is a text. Null when it is missing, NaN for anything else. */
function timeOf(value: unknown): number | null {
  if (value === undefined || value === null) return null
  if (typeof value === 'number') return value
  return typeof value === 'string' && /^\d{1,12}(?:\.\d{1,9})?$/.test(value) ? Number(value) : Number.NaN
}

/**
 * Returns the key under which the use of a token is stored: the hash of its issuer and `jti`, or of what is signed. Not of the
 * signature: everybody can write it in other bytes, and turn one of ES256 into another that is also right.
 */
export function replayKeyOf({ text, claims, issuer }: IdentityToken): Buffer {
  const { jti } = claims
  const hasId = (typeof jti === 'string' && jti !== '') || typeof jti === 'number'
  return createHash('sha256')
    .update(hasId ? JSON.stringify([issuer, String(jti)]) : text.slice(0, text.lastIndexOf('.')))
    .digest()
}

/** For how long the use of a token must be remembered: until its expiry with the leeway. */
export function replayEndOf(expires: number): Date {
  return new Date((expires + leewaySeconds) * 1000)
}

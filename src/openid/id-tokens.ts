import { createHash } from 'node:crypto'
import { compactVerify, createLocalJWKSet, SignJWT } from 'jose'
import type pg from 'pg'
import type { Queryable } from '../database/database.ts'
import type { KeySettings } from '../database/secret-key.ts'
import { hashSecret } from '../domain/secrets.ts'
import { singleFlight } from '../domain/single-flight.ts'
import { type TokenAlgorithm, tokenAlgorithms } from '../domain/token-algorithm.ts'
import { classOf, describeAccountClaims, describeMethods } from './claims.ts'
import { findCurrentKey, listPublicKeys, type SigningKeyPair } from './keys.ts'
import { findSignIn } from './sign-ins.ts'

/** How long an ID token can be used to sign in. */
const idTokenSeconds = 3600
/** How long a process signs with a key before it asks which one signs now. */
const keyMilliseconds = 60_000
const maxHintCharacters = 8192

/** Signs tokens with the current key of an algorithm. */
export interface TokenSigner {
  sign: (alg: TokenAlgorithm, type: string, claims: Record<string, unknown>) => Promise<string>
}

/** Opens a signer. It keeps keys in memory for a minute. WebCrypto signs in the threads of libuv. */
export function openTokenSigner(db: pg.Pool, config: KeySettings): TokenSigner {
  const known = new Map<TokenAlgorithm, { key: SigningKeyPair; until: number }>()
  const flights = singleFlight<SigningKeyPair>()

  async function keyOf(alg: TokenAlgorithm): Promise<SigningKeyPair> {
    const entry = known.get(alg)
    if (entry && entry.until > Date.now()) return entry.key
    return flights.share(alg, async () => {
      const key = await findCurrentKey(db, config, alg)
      known.set(alg, { key, until: Date.now() + keyMilliseconds })
      return key
    })
  }

  return {
    async sign(alg, typ, claims) {
      const { kid, privateKey } = await keyOf(alg)
      return new SignJWT(claims).setProtectedHeader({ alg, kid, typ }).sign(privateKey)
    },
  }
}

/** What the tokens of an exchange or a refresh are, for their ID token. */
export interface IssuedTokens {
  accessToken: string
  /** The granted scopes, separated by spaces. */
  scope: string
  /** The nonce is for the first ID token only (OpenID Connect Core §12.2). */
  isRefresh: boolean
}

/** Makes ID tokens. */
export interface IdTokens {
  /** Returns the ID token for an access token. Null when its scopes do not include `openid` (OPENID 243, 244). */
  issue: (tokens: IssuedTokens) => Promise<string | null>
}

/** Opens the maker of ID tokens. Without the scope `openid` it does nothing. */
export function openIdTokens(
  db: pg.Pool,
  config: KeySettings & { authUrl: string; lifetimes: { refreshToken: number } },
): IdTokens {
  const signer = openTokenSigner(db, config)
  return {
    async issue({ accessToken, scope, isRefresh }) {
      const scopes = scope.split(' ')
      if (!scopes.includes('openid')) return null
      const signIn = await findSignIn(db, hashSecret(accessToken), config.lifetimes.refreshToken)
      if (!signIn) return null
      const { methods, nonce, idTokenClaims } = signIn
      const claims = Object.entries(describeAccountClaims(signIn, scopes)).filter(([name]) =>
        idTokenClaims.includes(name),
      )
      const amr = describeMethods(methods)
      const now = Math.floor(Date.now() / 1000)
      return signer.sign(signIn.alg, 'JWT', {
        ...Object.fromEntries(claims),
        iss: config.authUrl,
        sub: signIn.accountId,
        aud: signIn.clientId,
        exp: now + idTokenSeconds,
        iat: now,
        auth_time: Math.floor(signIn.authenticatedAt),
        ...(nonce !== null && !isRefresh && { nonce }),
        at_hash: halfHashOf(accessToken),
        sid: signIn.sid,
        acr: classOf(methods),
        ...(amr.length > 0 && { amr }),
      })
    },
  }
}

/** Returns the claim `at_hash` for RS256 and ES256 (OpenID Connect Core §3.1.3.6). */
function halfHashOf(accessToken: string): string {
  return createHash('sha256').update(accessToken).digest().subarray(0, 16).toString('base64url')
}

/** Who an ID token is about, and for which application. */
export interface IdTokenHint {
  accountId: string
  clientId: string
  sid: string
}

/**
 * Reads an ID token that svc has signed, also when it has expired. Null for any other text, and for a token that another
 * site has signed.
 */
export async function readIdTokenHint(
  db: Queryable,
  { authUrl }: { authUrl: string },
  text: string,
): Promise<IdTokenHint | null> {
  if (text.length > maxHintCharacters) return null
  const keys = createLocalJWKSet({ keys: await listPublicKeys(db, { all: true }) })
  try {
    const { payload, protectedHeader } = await compactVerify(text, keys, { algorithms: [...tokenAlgorithms] })
    const { iss, sub, aud, sid } = JSON.parse(Buffer.from(payload).toString()) as Record<string, unknown>
    // A logout token has the same keys.
    if (protectedHeader.typ !== 'JWT' || iss !== authUrl) return null
    return { accountId: String(sub), clientId: String(aud), sid: String(sid) }
  } catch {
    return null
  }
}

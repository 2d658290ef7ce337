import { type CryptoKey, importJWK, type JWK } from 'jose'
import { LRUCache } from 'lru-cache'
import type { Log } from '../domain/log.ts'
import { singleFlight } from '../domain/single-flight.ts'
import type { Outbound } from '../outbound/outbound.ts'
import { OutboundError } from '../outbound/outbound-error.ts'
import { ExchangeRefusal } from './exchange-refusal.ts'
import type { SignatureAlgorithm } from './identity-token.ts'

/** How many issuers a process remembers. */
const maxIssuers = 500
/** How many keys of an issuer are used. */
const maxKeys = 100
/** How long keys are used before they are read again. */
const keysMilliseconds = 3_600_000
/** How often the keys are read again at most: because a token names an unknown one, or because they could not be read. */
const refetchMilliseconds = 60_000

/** Finds the public keys of issuers. */
export interface IssuerKeys {
  /** Reads the keys of an issuer, if they are not known yet. Throws `invalid_grant` when it cannot. */
  load: (issuer: TrustedIssuer, keyId: string) => Promise<void>
  /** Returns a key that `load` has read, for an algorithm. Throws `invalid_grant` when the issuer has no such key. */
  find: (issuer: string, keyId: string, algorithm: SignatureAlgorithm) => Promise<CryptoKey>
}

/** An issuer that a trusted publisher names. */
export interface TrustedIssuer {
  issuer: string
  /** Whether an operator has named it, so that it may be on a host of OUTBOUND_PRIVATE_HOSTS. */
  reachesPrivateHosts: boolean
}

interface KnownIssuer {
  keys: readonly JWK[]
  imported: Map<string, Promise<CryptoKey>>
  /** When the keys were read. */
  readAt: number
  /** When they were read again because of an unknown key. */
  refetchedAt: number
}

interface Failure {
  refusal: ExchangeRefusal
  at: number
}

/**
 * Opens the keys of issuers. They come from the issuer's discovery document (OpenID Connect Discovery 1.0 §4), and are kept in
 * memory for an hour. Concurrent requests for an issuer share one fetch.
 */
export function openIssuerKeys(outbound: Pick<Outbound, 'getJson'>, log: Log): IssuerKeys {
  const known = new LRUCache<string, KnownIssuer>({ max: maxIssuers })
  const failures = new LRUCache<string, Failure>({ max: maxIssuers })
  const flights = singleFlight<void>()

  async function fetchKeys({ issuer, reachesPrivateHosts }: TrustedIssuer): Promise<JWK[]> {
    const read = (url: string) => outbound.getJson('issuer', url, { rights: { reachesPrivateHosts } })
    const discovery = await read(`${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
    const { issuer: named, jwks_uri: url } = (discovery ?? {}) as Record<string, unknown>
    if (named !== issuer || typeof url !== 'string')
      throw unusable(issuer, 'its discovery document names another issuer, or no keys')
    const { keys } = ((await read(url).catch((error: unknown) => {
      throw hidingUrl(error, issuer)
    })) ?? {}) as Record<string, unknown>
    if (!Array.isArray(keys)) throw unusable(issuer, 'its key set is no JSON Web Key Set')
    return keys.filter(isUsable).slice(0, maxKeys)
  }

  /** Reads the keys. While they are read again, the former ones stay in use. */
  async function fetchInto(from: TrustedIssuer, refetchedAt: number): Promise<void> {
    try {
      const keys = await fetchKeys(from)
      known.set(from.issuer, { keys, imported: new Map(), readAt: Date.now(), refetchedAt })
      failures.delete(from.issuer)
    } catch (error) {
      const refusal = refusalOf(error, from.issuer)
      if (refusal === null) throw error
      log.warn({ err: error, issuer: from.issuer }, 'the keys of an issuer could not be read')
      failures.set(from.issuer, { refusal, at: Date.now() })
      throw refusal
    }
  }

  return {
    async load(from, keyId) {
      const { issuer } = from
      const now = Date.now()
      const entry = known.get(issuer)
      const isFresh = entry !== undefined && now - entry.readAt < keysMilliseconds
      if (isFresh && entry.keys.some(({ kid }) => kid === keyId)) return
      if (isFresh && now - entry.refetchedAt < refetchMilliseconds) return
      const failure = failures.get(issuer)
      if (failure && now - failure.at < refetchMilliseconds) throw failure.refusal
      await flights.share(issuer, () => fetchInto(from, isFresh ? now : 0))
    },

    async find(issuer, keyId, algorithm) {
      const entry = known.get(issuer)
      const key = entry?.keys.find(({ kid, alg }) => kid === keyId && (alg ?? algorithm) === algorithm)
      if (!entry || !key) throw unknownKey(issuer)
      const name = JSON.stringify([keyId, algorithm])
      const importing =
        entry.imported.get(name) ?? (importJWK(publicPart(key), algorithm) as Promise<CryptoKey>)
      entry.imported.set(name, importing)
      try {
        return await importing
      } catch {
        throw unknownKey(issuer)
      }
    },
  }
}

/** Returns whether an entry of a key set is a public key for signatures, with an id. */
function isUsable(key: unknown): key is JWK {
  const { kid, kty, use } = (key ?? {}) as Record<string, unknown>
  return typeof kid === 'string' && ['RSA', 'EC', 'OKP'].includes(kty as string) && (use ?? 'sig') === 'sig'
}

/** An issuer that publishes its private key by mistake is still only verified. */
function publicPart({ kty, n, e, crv, x, y }: JWK): JWK {
  return Object.fromEntries(
    Object.entries({ kty, n, e, crv, x, y }).filter(([, value]) => value !== undefined),
  )
}

function unknownKey(issuer: string): ExchangeRefusal {
  return new ExchangeRefusal('invalid_grant', `The issuer ${issuer} has no such key for this algorithm.`)
}

function unusable(issuer: string, reason: string): ExchangeRefusal {
  return new ExchangeRefusal('invalid_grant', `The keys of the issuer ${issuer} cannot be used: ${reason}.`)
}

/** Returns the error for a URL of keys that the guard refuses, without the URL: the issuer may be on a private host. */
function hidingUrl(error: unknown, issuer: string): unknown {
  const isRefused =
    error instanceof OutboundError && ['private', 'insecure', 'invalid-url'].includes(error.failure)
  const reason =
    'its keys are on a host without a public IP, or not https. An operator must allow it with OUTBOUND_PRIVATE_HOSTS and OUTBOUND_HTTP, and add the trusted publisher'
  return isRefused ? unusable(issuer, reason) : error
}

/**
 * Returns the refusal for a failed fetch. It names a setting that is missing, but nothing of a response: that may come from a
 * private host. Null for a bug.
 */
function refusalOf(error: unknown, issuer: string): ExchangeRefusal | null {
  if (error instanceof ExchangeRefusal) return error
  if (!(error instanceof OutboundError)) return null
  if (error.failure === 'private' || error.failure === 'insecure') return unusable(issuer, error.message)
  return new ExchangeRefusal(
    'invalid_grant',
    `The keys of the issuer ${issuer} cannot be read at the moment. Try again in a minute.`,
  )
}

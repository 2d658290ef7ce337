import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { crc32 } from 'node:zlib'

/** The prefix of each kind of secret (CONTRACT 5.1), so that the kinds cannot be confused. */
export const secretPrefixes = {
  access: 'svca_',
  refresh: 'svcr_',
  personal: 'svcp_',
  deploy: 'svcd_',
  publisher: 'svct_',
  code: 'svcc_',
  client: 'svcs_',
} as const
export type SecretKind = keyof typeof secretPrefixes

declare const hashed: unique symbol
/** SHA-256 of a secret, 32 bytes. Only hashes are stored and looked up. The type excludes plain secrets. */
export type SecretHash = Buffer & { readonly [hashed]: true }

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const eightDigits = 62n ** 8n
const randomLength = 43 // 62^43 > 2^256
const checksumLength = 6 // 62^6 > 2^32
const shape = /^svc[acdprst]_[0-9A-Za-z]{49}$/

/** Returns a new secret of the kind: prefix, 32 random bytes in base62, and 6 characters with the CRC-32 of both. */
export function makeSecret(kind: SecretKind): string {
  const body = secretPrefixes[kind] + base62(takeRandom(32), randomLength)
  return body + checksum(body)
}

/** Returns the kind of a well-formed secret. Null for a wrong format or checksum. Needs no database query. */
export function kindOfSecret(secret: string): SecretKind | null {
  if (!shape.test(secret)) return null
  const body = secret.slice(0, -checksumLength)
  if (checksum(body) !== secret.slice(-checksumLength)) return null
  const kinds = Object.keys(secretPrefixes) as SecretKind[]
  return kinds.find((kind) => secret.startsWith(secretPrefixes[kind])) ?? null
}

/** The kinds of tokens that the registry and the API accept. */
export const tokenKinds = ['access', 'personal', 'deploy', 'publisher'] as const satisfies SecretKind[]
export type TokenKind = (typeof tokenKinds)[number]

/** Returns the kind of a well-formed token that the registry and the API accept. Null for any other text. */
export function kindOfToken(text: string): TokenKind | null {
  const kind = kindOfSecret(text)
  return tokenKinds.find((one) => one === kind) ?? null
}

/** Returns the hash of a secret for storing. A slow hash is not needed, because every secret has 256 random bits. */
export function hashSecret(secret: string): SecretHash {
  return hash('sha256', secret, 'buffer') as SecretHash
}

/** What a public client presents in the place of a secret's hash (OPENID 203): the hash of the empty text. */
export const noSecretHash = hashSecret('')

/** Returns a new identifier for sessions, pending requests and the like: 32 random bytes, base64url. */
export function makeOpaqueId(): string {
  return randomBytes(32).toString('base64url')
}

/** Returns a new client identifier: 20 characters of `[a-z2-7]`, 100 random bits. */
export function makeClientId(): string {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567'
  return Array.from(randomBytes(20), (byte) => letters[byte & 31]).join('')
}

/** Returns a new password that is easy to copy: 25 characters of base62, 144 random bits. */
export function makePassword(): string {
  return base62(randomBytes(18), 25)
}

/** Returns whether a client sent the right text. Takes the same time for every wrong text of the same length. */
export function isSameSecret(sent: string, right: string): boolean {
  const [one, other] = [Buffer.from(sent), Buffer.from(right)]
  return one.length === other.length && timingSafeEqual(one, other)
}

/** How many random bytes are read at once, for many secrets. A call costs the same for 32 bytes and for 4 KiB. */
const drawnBytes = 4096
let drawn = Buffer.alloc(0)

/** Returns random bytes. Every call returns different bytes of the buffer. */
export function takeRandom(size: number): Buffer {
  if (drawn.length < size) drawn = randomBytes(drawnBytes)
  const taken = Buffer.from(drawn.subarray(0, size))
  drawn.fill(0, 0, size)
  drawn = drawn.subarray(size)
  return taken
}

function checksum(body: string): string {
  return digitsOf(crc32(body), checksumLength)
}

/**
 * Formats the bytes, as one big-endian number, in exactly `length` base62 digits. It takes eight digits at a time,
 * because eight digits fit into a JavaScript number.
 */
function base62(bytes: Buffer, length: number): string {
  let digits = ''
  for (let rest = BigInt(`0x${bytes.toString('hex')}`); digits.length < length; rest /= eightDigits) {
    digits = digitsOf(Number(rest % eightDigits), Math.min(8, length - digits.length)) + digits
  }
  return digits
}

/** Formats the lowest `length` base62 digits of a whole number. */
function digitsOf(number: number, length: number): string {
  let digits = ''
  for (let rest = number; digits.length < length; rest = Math.floor(rest / 62)) {
    digits = alphabet[rest % 62] + digits
  }
  return digits
}

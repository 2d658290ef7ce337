import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { takeRandom } from '../domain/secrets.ts'

/** Both tokens of a pair, as the client gets them. */
export interface TokenPair {
  accessToken: string
  refreshToken: string
}

const cipher = 'aes-256-gcm'
const ivLength = 12
const tagLength = 16

/**
 * Encrypts the successor of a refresh token. Only a request with that refresh token can open it (CONTRACT 5.3).
 * The database has only the token's hash, so neither the database nor the server has the key.
 */
export function sealPair(pair: TokenPair, refreshToken: string): Buffer {
  const iv = takeRandom(ivLength)
  const encrypt = createCipheriv(cipher, keyFrom(refreshToken), iv)
  const sealed = Buffer.concat([encrypt.update(`${pair.accessToken} ${pair.refreshToken}`), encrypt.final()])
  return Buffer.concat([iv, encrypt.getAuthTag(), sealed])
}

/** Decrypts what `sealPair` encrypted for this refresh token. Throws for any other token. */
export function openSeal(sealed: Buffer, refreshToken: string): TokenPair {
  const decrypt = createDecipheriv(cipher, keyFrom(refreshToken), sealed.subarray(0, ivLength), {
    authTagLength: tagLength,
  })
  decrypt.setAuthTag(sealed.subarray(ivLength, ivLength + tagLength))
  const opened = Buffer.concat([decrypt.update(sealed.subarray(ivLength + tagLength)), decrypt.final()])
  const [accessToken = '', nextRefreshToken = ''] = opened.toString().split(' ')
  return { accessToken, refreshToken: nextRefreshToken }
}

const noSalt = Buffer.alloc(32)
const firstBlock = 'svc sealed successor\x01'

/**
 * HKDF-SHA-256 (RFC 5869) for one block of output. A refresh token holds 256 random bits, so it needs no salt. Two HMACs
 * take 13 µs. Node's hkdfSync creates a key object and a job, and takes 62 µs.
 */
function keyFrom(refreshToken: string): Buffer {
  const pseudoRandomKey = createHmac('sha256', noSalt).update(refreshToken).digest()
  return createHmac('sha256', pseudoRandomKey).update(firstBlock).digest()
}

import { createCipheriv, createDecipheriv, hash } from 'node:crypto'
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
 * Encrypts the successor of a refresh token. Only a request with that refresh token can open it (DESIGN §5).
 * The database has only the token's hash, so neither the database nor the server has the key.
 */
export function sealPair(pair: TokenPair, refreshToken: string): Buffer {
  const iv = takeRandom(ivLength)
  const encrypt = createCipheriv(cipher, keyFrom(refreshToken), iv)
  const sealed = encrypt.update(`${pair.accessToken} ${pair.refreshToken}`)
  // In GCM, `update` has returned everything. `final` only computes the tag.
  encrypt.final()
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

const blockLength = 64
/** The padding of HMAC (RFC 2104 §2). It is also the whole key block of an empty key, which is the missing salt. */
const [innerPadding, outerPadding] = [Buffer.alloc(blockLength, 0x36), Buffer.alloc(blockLength, 0x5c)]
const noSalt = innerPadding.toString('latin1')
const firstBlock = Buffer.from('svc sealed successor\x01')

/**
 * HKDF-SHA-256 (RFC 5869) for one block of output: two HMACs of two hashes each. A refresh token holds 256 random bits, so
 * it needs no salt. In a profile, createHmac takes 8 µs for both, and its objects are work for the garbage collector.
 * One-shot hashes take 5 µs. Node's hkdfSync creates a key object and a job, and takes 62 µs.
 */
function keyFrom(refreshToken: string): Buffer {
  const pseudoRandomKey = sha256(Buffer.concat([outerPadding, sha256(noSalt + refreshToken)]))
  const inner = sha256(Buffer.concat([xor(innerPadding, pseudoRandomKey), firstBlock]))
  return sha256(Buffer.concat([xor(outerPadding, pseudoRandomKey), inner]))
}

function xor(padding: Buffer, key: Buffer): Buffer {
  const block = Buffer.from(padding)
  for (let i = 0; i < key.length; i += 1) block[i] = (block[i] as number) ^ (key[i] as number)
  return block
}

function sha256(input: string | Buffer): Buffer {
  return hash('sha256', input, 'buffer')
}

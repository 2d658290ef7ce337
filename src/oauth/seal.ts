import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** Both tokens of a pair, as the client gets them. */
export interface TokenPair {
  accessToken: string
  refreshToken: string
}

const cipher = 'aes-256-gcm'
const ivLength = 12
const tagLength = 16

/**
 * Encrypts a refresh token's successor so that only who presents that same refresh token can open it (DESIGN §5).
 * The database holds the token's hash alone, so neither it nor the server has the key.
 */
export function sealPair(pair: TokenPair, refreshToken: string): Buffer {
  const iv = randomBytes(ivLength)
  const encrypt = createCipheriv(cipher, keyFrom(refreshToken), iv)
  const sealed = Buffer.concat([encrypt.update(`${pair.accessToken} ${pair.refreshToken}`), encrypt.final()])
  return Buffer.concat([iv, encrypt.getAuthTag(), sealed])
}

/** Opens what `sealPair` made with the same refresh token; throws for any other. */
export function openSeal(sealed: Buffer, refreshToken: string): TokenPair {
  const decrypt = createDecipheriv(cipher, keyFrom(refreshToken), sealed.subarray(0, ivLength), {
    authTagLength: tagLength,
  })
  decrypt.setAuthTag(sealed.subarray(ivLength, ivLength + tagLength))
  const opened = Buffer.concat([decrypt.update(sealed.subarray(ivLength + tagLength)), decrypt.final()])
  const [accessToken = '', nextRefreshToken = ''] = opened.toString().split(' ')
  return { accessToken, refreshToken: nextRefreshToken }
}

/** HKDF-SHA-256 (RFC 5869). A refresh token holds 256 random bits, so it needs no salt. */
function keyFrom(refreshToken: string): Buffer {
  return Buffer.from(hkdfSync('sha256', refreshToken, '', 'svc sealed successor', 32))
}

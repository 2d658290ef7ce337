import { createCipheriv, hkdfSync, randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { makeSecret } from '../../src/domain/secrets.ts'
import { openSeal, sealPair } from '../../src/oauth/seal.ts'

describe('the sealed successor (CONTRACT 5.3)', () => {
  const old = makeSecret('refresh')
  const pair = { accessToken: makeSecret('access'), refreshToken: makeSecret('refresh') }

  it('opens with the refresh token that it was made for', () => {
    expect(openSeal(sealPair(pair, old), old)).toEqual(pair)
  })

  it('has a key of HKDF-SHA-256, so that seals of every release open (RFC 5869)', () => {
    const key = Buffer.from(hkdfSync('sha256', old, '', 'svc sealed successor', 32))
    const iv = randomBytes(12)
    const encrypt = createCipheriv('aes-256-gcm', key, iv)
    const sealed = Buffer.concat([
      encrypt.update(`${pair.accessToken} ${pair.refreshToken}`),
      encrypt.final(),
    ])
    expect(openSeal(Buffer.concat([iv, encrypt.getAuthTag(), sealed]), old)).toEqual(pair)
  })

  it('opens with no other token', () => {
    expect(() => openSeal(sealPair(pair, old), makeSecret('refresh'))).toThrow()
  })

  it('does not open when one bit was changed', () => {
    const sealed = sealPair(pair, old)
    for (const at of [0, 12, 28, sealed.length - 1]) {
      const changed = Buffer.from(sealed)
      changed.writeUInt8(changed.readUInt8(at) ^ 1, at)
      expect(() => openSeal(changed, old)).toThrow()
    }
  })

  it('is different each time', () => {
    expect(sealPair(pair, old).equals(sealPair(pair, old))).toBe(false)
  })
})

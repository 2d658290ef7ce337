import { describe, expect, it } from 'vitest'
import type { Config } from '../../src/config.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { deleteExpiredCodes, deleteExpiredPairs, wipeSeals } from '../../src/oauth/token-sweeps.ts'
import { useApp } from '../support/app.ts'
import { listSealedPairs, storedCode } from '../support/oauth-rows.ts'
import { countRows, dropRows } from '../support/rows.ts'
import { anAuthorizedApplication, pass, works } from '../support/token-client.ts'

const day = 86_400

describe('the sweeps of tokens', () => {
  const t = useApp()
  const sweep = async (limit = 2000, config: Pick<Config, 'lifetimes'> = t.config) => [
    await wipeSeals(t.db, limit),
    await deleteExpiredPairs(t.db, limit),
    await deleteExpiredCodes(t.db, limit, config),
  ]

  it('wipe the seals whose grace period has ended, and keep the others (CONTRACT 5.3)', async () => {
    const { tokens, refresh } = await anAuthorizedApplication(t)
    const pairs = [await tokens(), await tokens(), await tokens()]
    for (const { refresh_token } of pairs) await refresh(refresh_token)
    await sweep(2)
    expect(await listSealedPairs(t.db)).toHaveLength(3)
    expect((await refresh(pairs[0]?.refresh_token ?? '')).statusCode).toBe(200)
    await pass(t.db, 300)
    const later = await tokens()
    await refresh(later.refresh_token)
    expect((await sweep(2))[0]).toBe(3)
    expect(await listSealedPairs(t.db)).toEqual([hashSecret(later.refresh_token)])
    await pass(t.db, 300)
    expect((await sweep(2))[0]).toBe(1)
    expect((await sweep(2))[0]).toBe(0)
  })

  it('keep a used code while a second use must end its pairs, and an unused one for a day', async () => {
    const { newCode, exchange } = await anAuthorizedApplication(t)
    const [used] = [await newCode(), await newCode()]
    await exchange(used)
    await sweep()
    expect(await countRows(t.db, 'authorization_code', { redeemedAt: null })).toBe(1)
    await pass(t.db, 2 * day)
    await sweep()
    expect(await countRows(t.db, 'authorization_code', { redeemedAt: null })).toBe(0)
    expect((await exchange(used)).json().error).toBe('invalid_grant')
    const isKept = async () => (await storedCode(t.db, used)) !== undefined
    expect(await isKept()).toBe(true)
    await pass(t.db, 212 * day)
    const { lifetimes } = t.config
    await sweep(2000, { lifetimes: { ...lifetimes, refreshToken: 365 * day } })
    expect(await isKept()).toBe(true)
    await sweep()
    expect([await countRows(t.db, 'token_pair'), await countRows(t.db, 'authorization_code')]).toEqual([0, 0])
  })

  it('delete pairs that have been dead for 30 days, also those that were alive when the sweep passed them', async () => {
    const { tokens, refresh } = await anAuthorizedApplication(t)
    const early = await tokens()
    const late = await tokens()
    const next = (await refresh(early.refresh_token)).json()
    await pass(t.db, 29 * day)
    await sweep(2)
    expect(await countRows(t.db, 'token_pair')).toBe(3)
    await pass(t.db, 3 * day)
    await sweep(2)
    expect(await countRows(t.db, 'token_pair')).toBe(2)
    const last = (await refresh(late.refresh_token)).json()
    expect(await works(t, last.access_token)).toBe(true)
    await pass(t.db, 31 * day)
    await sweep(2)
    expect(await countRows(t.db, 'token_pair')).toBe(2)
    expect((await refresh(next.refresh_token)).statusCode).toBe(200)
    expect((await refresh(last.refresh_token)).statusCode).toBe(200)
  })

  it('delete pairs whose authorization is gone, once they have expired', async () => {
    const { tokens, account } = await anAuthorizedApplication(t)
    const { access_token } = await tokens()
    await dropRows(t.db, 'account', { id: account.id })
    expect(await works(t, access_token)).toBe(false)
    const before = await countRows(t.db, 'token_pair')
    await pass(t.db, 212 * day)
    await sweep()
    expect(before).toBeGreaterThan(0)
    expect(await countRows(t.db, 'token_pair')).toBe(0)
  })
})

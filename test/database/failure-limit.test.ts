import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { countAttempt, takeBackAttempt } from '../../src/database/failure-limit.ts'
import { endFailureWindows } from '../support/account-rows.ts'
import { useDatabase } from '../support/database.ts'
import { countRows } from '../support/rows.ts'

describe('the attempt limit', () => {
  const t = useDatabase()
  const limit = (subject: string, attempts = 3) => ({ subject, attempts, windowSeconds: 3600 })
  const count = async (...limits: ReturnType<typeof limit>[]) => await countAttempt(t.db, limits)

  it('allows as many attempts as the limit has, then blocks until the window ends', async () => {
    const alice = limit('alice')
    for (let i = 0; i < 3; i++) expect(await count(alice)).toBe(0)
    expect(await count(alice)).toBeGreaterThan(3000)
    expect(await count(alice)).toBeLessThanOrEqual(3600)
    expect(await count(limit('bob'))).toBe(0)
  })

  it('starts again when the window has ended', async () => {
    const carol = limit('carol')
    for (let i = 0; i < 4; i++) await count(carol)
    await endFailureWindows(t.db)
    expect(await count(carol)).toBe(0)
  })

  it('does not count a blocked attempt for the other subjects, and writes no row for them', async () => {
    const network = limit('network')
    for (let i = 0; i < 4; i++) await count(network)
    const keys = () => countRows(t.db, 'auth_failure')
    const before = await keys()
    expect(await count(network, limit('dave'))).toBeGreaterThan(0)
    expect(await keys()).toBe(before)
    for (let i = 0; i < 3; i++) expect(await count(limit('dave'))).toBe(0)
  })

  it('takes attempts back, and clears a subject', async () => {
    const [own, shared] = [limit('own'), limit('shared')]
    for (let i = 0; i < 3; i++) await count(shared, own)
    await takeBackAttempt(t.db, [shared, own], [own])
    expect(await count(shared, own)).toBe(0)
    expect(await count(shared)).toBeGreaterThan(0)
    for (let i = 0; i < 2; i++) expect(await count(own)).toBe(0)
    expect(await count(own)).toBeGreaterThan(0)
  })

  it('leaves nothing of a single attempt that is taken back', async () => {
    const only = limit('only')
    const keys = () => countRows(t.db, 'auth_failure')
    const before = await keys()
    await count(only)
    await takeBackAttempt(t.db, [only])
    expect(await keys()).toBe(before)
  })

  it('allows exactly the limit of many attempts at once, while others are taken back', async () => {
    // Some races happen in one of two hundred rounds.
    for (let round = 0; round < 100; round += 1) {
      const [network, name] = [limit(`many network ${round}`, 1000), limit(`many name ${round}`, 10)]
      const work = Array.from({ length: 40 }, async (_, i) => {
        if (i % 4 === 0) {
          await count(network, limit('others', 1000))
          await takeBackAttempt(t.db, [network, limit('others', 1000)])
          return 1
        }
        return count(network, name)
      })
      const blocked = await Promise.all(work)
      expect(blocked.filter((seconds) => seconds === 0)).toHaveLength(10)
    }
    const others = { keyHash: createHash('sha256').update('others').digest() }
    expect(await countRows(t.db, 'auth_failure', others)).toBe(0)
  })
})

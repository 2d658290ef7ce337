import { describe, expect, it } from 'vitest'
import { useAnotherProcess, useApp } from '../support/app.ts'
import { countWaiting, openTransaction } from '../support/locks.ts'
import { lockPackage } from '../support/package-rows.ts'
import { aPublisher } from '../support/registry-actors.ts'

describe('a package that something else is changing', () => {
  const t = useApp()
  /** With svc's own limits of time. */
  const impatient = useAnotherProcess(t)
  const whilePackageIsLocked = async (work: () => Promise<void>) => {
    const holder = await openTransaction(t.db)
    try {
      await lockPackage(holder.tx, 'acme/lib')
      await work()
    } finally {
      await holder.rollback()
    }
  }

  it('delays neither pulls nor other requests, however many pushes wait for it', async () => {
    const { push, ask } = await aPublisher(t)
    await push('1.0.0')
    await push('1.0.0', { name: 'acme/other' })
    let pushes: ReturnType<typeof push>[] = []
    await whilePackageIsLocked(async () => {
      pushes = Array.from({ length: 45 }, (_, i) => push(`1.1.${i}`))
      // There are more requests than connections in the main pool. Some wait for the lock, and the others wait for a connection.
      await expect.poll(() => countWaiting(t.db)).toBe(5)
      for (const path of ['p2/acme/other.json', 'p2/acme/lib.json', 'packages.json']) {
        expect((await ask(path)).statusCode).toBe(200)
      }
      expect(await countWaiting(t.db)).toBe(5)
    })
    const statuses = (await Promise.all(pushes)).map(({ statusCode }) => statusCode)
    expect(new Set(statuses)).toEqual(new Set([201]))
  })

  it('returns a push with 503 and Retry-After when it takes too long', async () => {
    const { push } = await aPublisher({ app: impatient.app, db: t.db })
    await push('1.0.0')
    await whilePackageIsLocked(async () => {
      const response = await push('1.1.0')
      expect([response.statusCode, response.json().errcode]).toEqual([503, 14])
      expect(response.headers['retry-after']).toBe('5')
    })
    expect((await push('1.1.0')).statusCode).toBe(201)
  })
})

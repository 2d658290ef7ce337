import { describe, expect, it } from 'vitest'
import { deleteExpiredSessions } from '../../src/accounts/sessions.ts'
import { countAttempt, deleteExpiredAttempts } from '../../src/database/failure-limit.ts'
import { sweepJob } from '../../src/jobs/expired-rows.ts'
import { deleteExpiredRequests } from '../../src/oauth/authorization-requests.ts'
import { endFailureWindows } from '../support/account-rows.ts'
import { signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { addConsentPages, addEndedFailures } from '../support/expiring-rows.ts'
import { aStoredJob, listStoredJobs } from '../support/job-rows.ts'
import { lockAllRows, openTransaction } from '../support/locks.ts'
import { countRows, dropRows, expire } from '../support/rows.ts'
import { anAuthorizedApplication } from '../support/token-client.ts'

describe('the sweep of expired rows', () => {
  const t = useApp()
  const count = (table: string) => countRows(t.db, table)

  /** Runs all sweeps of this file once. */
  async function sweep(): Promise<void> {
    for (const one of [deleteExpiredSessions, deleteExpiredAttempts, deleteExpiredRequests]) {
      await one(t.db, 2000)
    }
  }

  it('deletes expired sessions and failures, and keeps the others', async () => {
    const { account } = await anAuthorizedApplication(t)
    await signIn(t.app, account)
    const subject = [{ subject: 'x', attempts: 3, windowSeconds: 60 }]
    await countAttempt(t.db, subject)
    await sweep()
    expect([await count('session'), await count('auth_failure')]).toEqual([1, 1])
    await expire(t.db, 'session', {}, '1 second')
    await endFailureWindows(t.db)
    await sweep()
    expect([await count('session'), await count('auth_failure')]).toEqual([0, 0])
  })

  it('deletes consent pages a day after they expired', async () => {
    const { application, account } = await anAuthorizedApplication(t)
    await dropRows(t.db, 'authorization_request')
    await addConsentPages(t.db, account, application, [-1, 23, 25, 49])
    expect(await deleteExpiredRequests(t.db, 2000)).toBe(2)
    expect(await count('authorization_request')).toBe(2)
  })

  it('deletes a bounded number of rows, and skips locked ones', async () => {
    await addEndedFailures(t.db, 5000)
    const { tx, rollback } = await openTransaction(t.db)
    await lockAllRows(tx, 'auth_failure')
    expect(await deleteExpiredAttempts(t.db, 2000)).toBe(0)
    await rollback()
    const deleted: number[] = []
    for (let i = 0; i < 4; i += 1) deleted.push(await deleteExpiredAttempts(t.db, 2000))
    expect(deleted).toEqual([2000, 2000, 1000, 0])
  })

  it('runs as a scheduled job, which deletes all expired rows and continues after a sweep that fails', async () => {
    await addEndedFailures(t.db, 5000)
    await aStoredJob(t.db, 'old', { failedDaysAgo: 15 })
    await aStoredJob(t.db, 'new', { failedDaysAgo: 0 })
    const broken = async () => {
      throw new Error('broken')
    }
    const job = sweepJob([broken, deleteExpiredAttempts])
    const context = { config: t.config, db: t.db, log: t.app.log }
    await expect(job.run(context, {}, new AbortController().signal)).rejects.toThrow('broken')
    expect(await count('auth_failure')).toBe(0)
    expect(await listStoredJobs(t.db)).toMatchObject([{ name: 'new' }])
    expect(job.everySeconds).toBe(300)
  })
})

import { describe, expect, it } from 'vitest'
import { deleteExpiredSessions } from '../../src/accounts/sessions.ts'
import { countAttempt, deleteExpiredAttempts } from '../../src/database/failure-limit.ts'
import { sweepJob } from '../../src/jobs/expired-rows.ts'
import { deleteExpiredRequests } from '../../src/oauth/authorization-requests.ts'
import { signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { anAuthorizedApplication } from '../support/token-client.ts'

describe('the sweep of expired rows', () => {
  const t = useApp()
  const count = async (table: string) =>
    Number((await t.db.query(`select count(*) from ${table}`)).rows[0].count)

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
    await t.db.query(`update session set expires_at = now() - interval '1 second'`)
    await t.db.query(`update auth_failure set window_ends_at = now() - interval '1 second'`)
    await sweep()
    expect([await count('session'), await count('auth_failure')]).toEqual([0, 0])
  })

  it('deletes consent pages a day after they expired', async () => {
    const { application, account } = await anAuthorizedApplication(t)
    await t.db.query('delete from authorization_request')
    await t.db.query(
      `insert into authorization_request (id_hash, account_id, application_id, link, redirect_uri, scopes, resource_scope, expires_at)
       select sha256(hours::text::bytea), $1, $2, '/', 'https://app.example.com/', '{account-profile:r}', 'all',
              now() - hours * interval '1 hour' from unnest(array[-1, 23, 25, 49]) as hours`,
      [account.id, application.id],
    )
    expect(await deleteExpiredRequests(t.db, 2000)).toBe(2)
    expect(await count('authorization_request')).toBe(2)
  })

  it('deletes a bounded number of rows, and skips locked ones', async () => {
    await t.db.query(
      `insert into auth_failure (key_hash, failures, window_ends_at)
       select sha256(i::text::bytea), 1, now() - interval '1 minute' from generate_series(1, 5000) as i`,
    )
    const other = await t.db.connect()
    await other.query('begin')
    await other.query('select from auth_failure for update')
    expect(await deleteExpiredAttempts(t.db, 2000)).toBe(0)
    await other.query('rollback')
    other.release()
    const deleted: number[] = []
    for (let i = 0; i < 4; i += 1) deleted.push(await deleteExpiredAttempts(t.db, 2000))
    expect(deleted).toEqual([2000, 2000, 1000, 0])
  })

  it('runs as a scheduled job, which deletes all expired rows and continues after a sweep that fails', async () => {
    await t.db.query(
      `insert into auth_failure (key_hash, failures, window_ends_at)
       select sha256(i::text::bytea), 1, now() - interval '1 minute' from generate_series(1, 5000) as i`,
    )
    await t.db.query(
      `insert into job (name, failed_at) values ('old', now() - interval '15 days'), ('new', now())`,
    )
    const broken = async () => {
      throw new Error('broken')
    }
    const job = sweepJob([broken, deleteExpiredAttempts])
    const context = { config: t.config, db: t.db, log: t.app.log }
    await expect(job.run(context, {}, new AbortController().signal)).rejects.toThrow('broken')
    expect(await count('auth_failure')).toBe(0)
    expect((await t.db.query('select name from job')).rows).toEqual([{ name: 'new' }])
    expect(job.everySeconds).toBe(300)
  })
})

import { describe, expect, it } from 'vitest'
import { countAttempt } from '../../src/http/failure-limit.ts'
import { deleteExpiredCredentials, sweepJob } from '../../src/jobs/expired-rows.ts'
import { signIn } from '../support/actors.ts'
import { useApp } from '../support/app.ts'
import { anAuthorizedApplication } from '../support/token-client.ts'

describe('the sweep of expired rows', () => {
  const t = useApp()
  const count = async (table: string) =>
    Number((await t.db.query(`select count(*) from ${table}`)).rows[0].count)

  it('takes expired sessions, sign-ins under way, and failures, and no living ones', async () => {
    const { account } = await anAuthorizedApplication(t)
    await signIn(t.app, account)
    await t.app.inject('/oauth2/auth')
    const subject = [{ subject: 'x', attempts: 3, windowSeconds: 60 }]
    await countAttempt(t.db, subject)
    await deleteExpiredCredentials(t.db, 2000)
    expect([await count('session'), await count('auth_failure')]).toEqual([1, 1])
    await t.db.query(`update session set expires_at = now() - interval '1 second'`)
    await t.db.query(`update auth_failure set window_ends_at = now() - interval '1 second'`)
    await t.db.query(`update sign_in_return set expires_at = now() - interval '1 second'`)
    await deleteExpiredCredentials(t.db, 2000)
    expect([await count('session'), await count('auth_failure'), await count('sign_in_return')]).toEqual([
      0, 0, 0,
    ])
  })

  it('takes a bounded number of rows, and leaves those that somebody holds', async () => {
    await t.db.query(
      `insert into auth_failure (key_hash, failures, window_ends_at)
       select sha256(i::text::bytea), 1, now() - interval '1 minute' from generate_series(1, 5000) as i`,
    )
    const other = await t.db.connect()
    await other.query('begin')
    await other.query('select from auth_failure for update')
    expect(await deleteExpiredCredentials(t.db, 2000)).toBe(0)
    await other.query('rollback')
    other.release()
    const deleted: number[] = []
    for (let i = 0; i < 4; i += 1) deleted.push(await deleteExpiredCredentials(t.db, 2000))
    expect(deleted).toEqual([2000, 2000, 1000, 0])
  })

  it('runs as a scheduled job, which deletes all there is and goes on after a sweep that fails', async () => {
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
    const job = sweepJob([broken, deleteExpiredCredentials])
    const context = { config: t.config, db: t.db, log: t.app.log }
    await expect(job.run(context, {}, new AbortController().signal)).rejects.toThrow('broken')
    expect(await count('auth_failure')).toBe(0)
    expect((await t.db.query('select name from job')).rows).toEqual([{ name: 'new' }])
    expect(job.everySeconds).toBe(300)
  })
})

import { describe, expect, it } from 'vitest'
import { findCredentials, replacePasswordHash } from '../../src/accounts/accounts.ts'
import {
  deleteAllSessions,
  findSession,
  insertSession,
  listLatestSessions,
} from '../../src/accounts/sessions.ts'
import { transaction } from '../../src/database/database.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { type AccountActor, anAccount } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'

describe('a session', () => {
  const t = useDatabase()

  /** Starts a session of the account, as a sign-in does. */
  async function aSession({ username }: AccountActor): Promise<string> {
    const credentials = await findCredentials(t.db, username)
    const id = credentials && (await insertSession(t.db, credentials, { network: '192.0.2.1' }))
    return id ?? expect.fail('no session was started')
  }

  it('is found by its id; only the hash of the id is stored', async () => {
    const account = await anAccount(t.db)
    const id = await aSession(account)
    expect((await findSession(t.db, id))?.account).toMatchObject(account)
    const { rows } = await t.db.query('select id_hash from session where account_id = $1', [account.id])
    expect(rows).toEqual([{ id_hash: hashSecret(id) }])
  })

  it.each([
    ['30 days after the sign-in', `expires_at = now()`],
    ['after a week without a request', `last_seen_at = now() - interval '8 days'`],
  ])('ends %s', async (_when, age) => {
    const id = await aSession(await anAccount(t.db))
    await t.db.query(`update session set ${age} where id_hash = $1`, [hashSecret(id)])
    expect(await findSession(t.db, id)).toBeNull()
  })

  it('is not started for a password that is no longer the account’s, or for a disabled account', async () => {
    const { id, username } = await anAccount(t.db)
    const checked = (await findCredentials(t.db, username)) ?? expect.fail()
    expect(await replacePasswordHash(t.db, checked, 'another hash')).toBe(true)
    expect(await insertSession(t.db, checked, { network: '192.0.2.1' })).toBeNull()
    const current = { ...checked, passwordHash: 'another hash' }
    await t.db.query('update account set disabled_at = now() where id = $1', [id])
    expect(await insertSession(t.db, current, { network: '192.0.2.1' })).toBeNull()
  })

  it('that starts while the password is being changed does not outlive the change', async () => {
    const { username } = await anAccount(t.db)
    const checked = (await findCredentials(t.db, username)) ?? expect.fail()
    let starting: Promise<string | null> | undefined
    await transaction(t.db, async (tx) => {
      await replacePasswordHash(tx, checked, 'another hash')
      await deleteAllSessions(tx, checked.accountId)
      starting = insertSession(t.db, checked, { network: '192.0.2.1' })
      // Wait until the statement of the session runs. Only then is the change committed.
      const isWaiting = `select from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%insert into session%'`
      await expect.poll(async () => (await t.db.query(isWaiting)).rowCount).toBe(1)
    })
    expect(await starting).toBeNull()
  })

  it('ends with its account', async () => {
    const account = await anAccount(t.db)
    const id = await aSession(account)
    await t.db.query('update account set disabled_at = now() where id = $1', [account.id])
    expect(await findSession(t.db, id)).toBeNull()
  })

  it('is in a short list when it was seen last', async () => {
    const account = await anAccount(t.db)
    const keys: string[] = []
    for (let i = 0; i < 6; i += 1) {
      const idHash = hashSecret(await aSession(account))
      keys.push(idHash.toString('hex'))
      await t.db.query(
        `update session set last_seen_at = now() - make_interval(mins => $2) where id_hash = $1`,
        [idHash, i],
      )
    }
    const latest = await listLatestSessions(t.db, account.id, 3)
    expect(latest.map(({ key }) => key)).toEqual(keys.slice(0, 3))
  })

  it('notes once a minute that it was seen', async () => {
    const id = await aSession(await anAccount(t.db))
    const idHash = hashSecret(id)
    const readAge = async () => {
      const { rows } = await t.db.query<{ age: number }>(
        'select extract(epoch from now() - last_seen_at)::float8 as age from session where id_hash = $1',
        [idHash],
      )
      return rows[0]?.age ?? Number.NaN
    }
    await t.db.query(`update session set last_seen_at = now() - interval '50 seconds' where id_hash = $1`, [
      idHash,
    ])
    await findSession(t.db, id)
    expect(await readAge()).toBeGreaterThan(49)
    await t.db.query(`update session set last_seen_at = now() - interval '1 day' where id_hash = $1`, [
      idHash,
    ])
    await findSession(t.db, id)
    expect(await readAge()).toBeLessThan(3600)
  })
})

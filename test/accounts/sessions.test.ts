import { describe, expect, it } from 'vitest'
import { findSession, insertSession } from '../../src/accounts/sessions.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { anAccount } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'

describe('a session', () => {
  const t = useDatabase()

  it('is found by its id, of which only the hash is stored', async () => {
    const account = await anAccount(t.db)
    const id = await insertSession(t.db, account.id, '192.0.2.1')
    expect((await findSession(t.db, id))?.account).toMatchObject(account)
    const { rows } = await t.db.query('select id_hash from session where account_id = $1', [account.id])
    expect(rows).toEqual([{ id_hash: hashSecret(id) }])
  })

  it.each([
    ['30 days after the sign-in', `expires_at = now()`],
    ['after a week without a request', `last_seen_at = now() - interval '8 days'`],
  ])('ends %s', async (_when, age) => {
    const id = await insertSession(t.db, (await anAccount(t.db)).id, '192.0.2.1')
    await t.db.query(`update session set ${age} where id_hash = $1`, [hashSecret(id)])
    expect(await findSession(t.db, id)).toBeNull()
  })

  it('ends with its account', async () => {
    const account = await anAccount(t.db)
    const id = await insertSession(t.db, account.id, '192.0.2.1')
    await t.db.query('update account set disabled_at = now() where id = $1', [account.id])
    expect(await findSession(t.db, id)).toBeNull()
  })

  it('notes once a minute that it was seen', async () => {
    const id = await insertSession(t.db, (await anAccount(t.db)).id, '192.0.2.1')
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

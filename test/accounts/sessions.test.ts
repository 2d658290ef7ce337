import { describe, expect, it } from 'vitest'
import { exportAccount } from '../../src/accounts/account-export.ts'
import {
  findAccountDetails,
  findCredentials,
  replacePasswordHash,
  setDisabled,
} from '../../src/accounts/accounts.ts'
import {
  deleteAllSessions,
  findSession,
  insertSession,
  listLatestSessions,
} from '../../src/accounts/sessions.ts'
import { transaction } from '../../src/database/database.ts'
import { operator } from '../../src/domain/principal.ts'
import { hashSecret } from '../../src/domain/secrets.ts'
import { ageSession, listStoredSessions } from '../support/account-rows.ts'
import { type AccountActor, anAccount } from '../support/actors.ts'
import { useDatabase } from '../support/database.ts'
import { countEvents } from '../support/event-rows.ts'
import { untilWaiting } from '../support/locks.ts'
import { expire } from '../support/rows.ts'

describe('a session', () => {
  const t = useDatabase()

  /** Starts a session of the account, as a sign-in does. */
  async function aSession({ username }: AccountActor): Promise<string> {
    const credentials = await findCredentials(t.db, username)
    const id = credentials && (await insertSession(t.db, operator, credentials, { network: '192.0.2.1' }))
    return id ?? expect.fail('no session was started')
  }

  it('is found by its id; only the hash of the id is stored', async () => {
    const account = await anAccount(t.db)
    const id = await aSession(account)
    expect((await findSession(t.db, id))?.account).toMatchObject(account)
    const sessions = await listStoredSessions(t.db, account)
    expect(sessions.map(({ idHash }) => idHash)).toEqual([hashSecret(id)])
  })

  it.each<[string, (session: string) => Promise<void>]>([
    ['30 days after the sign-in', (session) => expire(t.db, 'session', { idHash: hashSecret(session) })],
    ['after a week without a request', (session) => ageSession(t.db, session, '8 days')],
  ])('ends %s', async (_when, age) => {
    const id = await aSession(await anAccount(t.db))
    await age(id)
    expect(await findSession(t.db, id)).toBeNull()
  })

  it('is not started for a password that is no longer the account’s, or for a disabled account', async () => {
    const { id, username } = await anAccount(t.db)
    const checked = (await findCredentials(t.db, username)) ?? expect.fail()
    expect(await replacePasswordHash(t.db, operator, checked, 'another hash')).toBe(true)
    expect(await insertSession(t.db, operator, checked, { network: '192.0.2.1' })).toBeNull()
    const current = { ...checked, passwordHash: 'another hash' }
    await setDisabled(t.db, operator, id, true)
    expect(await insertSession(t.db, operator, current, { network: '192.0.2.1' })).toBeNull()
  })

  it('that starts while the password is being changed does not outlive the change', async () => {
    const { username } = await anAccount(t.db)
    const checked = (await findCredentials(t.db, username)) ?? expect.fail()
    let starting: Promise<string | null> | undefined
    await transaction(t.db, async (tx) => {
      await replacePasswordHash(tx, operator, checked, 'another hash')
      await deleteAllSessions(tx, operator, checked.accountId)
      starting = insertSession(t.db, operator, checked, { network: '192.0.2.1' })
      // Wait until the statement of the session runs. Only then is the change committed.
      await untilWaiting(t.db, 1, 'insert into session')
    })
    expect(await starting).toBeNull()
  })

  it('ends with its account', async () => {
    const account = await anAccount(t.db)
    const id = await aSession(account)
    await setDisabled(t.db, operator, account.id, true)
    expect(await findSession(t.db, id)).toBeNull()
  })

  it('is in a short list when it was seen last', async () => {
    const account = await anAccount(t.db)
    const keys: string[] = []
    for (let i = 0; i < 6; i += 1) {
      const id = await aSession(account)
      keys.push(hashSecret(id).toString('hex'))
      await ageSession(t.db, id, `${i} minutes`)
    }
    const latest = await listLatestSessions(t.db, account.id, 3)
    expect(latest.map(({ key }) => key)).toEqual(keys.slice(0, 3))
  })

  it('counts for its account, is in its export, and ends with an event, only while it runs', async () => {
    const account = await anAccount(t.db)
    await aSession(account)
    const ids = [await aSession(account), await aSession(account)]
    await ageSession(t.db, ids[0] ?? '', '7 days')
    await expire(t.db, 'session', { idHash: hashSecret(ids[1] ?? '') })
    expect(await listLatestSessions(t.db, account.id, 3)).toHaveLength(1)
    expect(await findAccountDetails(t.db, account.username)).toMatchObject({ sessions: 1 })
    expect(await exportAccount(t.db, account.id)).toMatchObject({ sessions: [expect.anything()] })
    await transaction(t.db, (tx) => deleteAllSessions(tx, operator, account.id))
    expect(await countEvents(t.db, { accountId: account.id, action: 'session-ended' })).toBe(1)
  })

  it('notes once a minute that it was seen', async () => {
    const account = await anAccount(t.db)
    const id = await aSession(account)
    const readAge = async () => (await listStoredSessions(t.db, account))[0]?.age ?? Number.NaN
    await ageSession(t.db, id, '20 seconds')
    await findSession(t.db, id)
    expect(await readAge()).toBeGreaterThan(19)
    await ageSession(t.db, id, '1 day')
    await findSession(t.db, id)
    expect(await readAge()).toBeLessThan(3600)
  })
})
